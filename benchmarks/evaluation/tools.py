"""Tools that are measured, as commands: our engine, our whole command, the bare loop, and the peers that
people use.

Every one of them asks the same prompts for chat completions, keeps at most as many calls in flight as it is told, and
writes what it writes by default, but for Inspect AI: it gets the settings with which it is fastest.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from benchmarks.evaluation.measured import Command, Load
from benchmarks.peers import peer_python

HERE = Path(__file__).parent
STEELYARD = str(Path(sys.executable).parent / "steelyard")
NO_KEY = {"OPENAI_API_KEY": "none"}


def engine(folder: Path, load: Load) -> Command:
    return _client("engine", folder, load)


def bare(folder: Path, load: Load) -> Command:
    return _client("bare", folder, load)


def _client(what: str, folder: Path, load: Load) -> Command:
    module = [sys.executable, "-m", "benchmarks.evaluation.client", what]
    return Command([*module, str(folder), str(load.in_flight), "{urls}"])


def command(folder: Path, load: Load) -> Command:
    """`steelyard eval run`, to the report page."""
    return _command(folder, load, str(load.in_flight // load.replicas))


def command_auto(folder: Path, load: Load) -> Command:
    """The same, not told how much the server takes."""
    return _command(folder, load, "auto")


def _command(folder: Path, load: Load, concurrency: str) -> Command:
    """Each time into a new folder."""
    output = folder / "run"
    shutil.rmtree(output, ignore_errors=True)
    made = [
        STEELYARD,
        "eval",
        "run",
        str(folder / "prompts.parquet"),
        "--model",
        "mock",
        "--rubric",
        "exact-match",
    ]
    for replica in range(load.replicas):
        made += ["--url", f"{{url{replica or ''}}}/v1"]
    made += [
        "--limit",
        str(load.rows),
        "--concurrency",
        concurrency,
        "--output",
        str(output),
        "--display",
        "none",
    ]
    return Command(made, NO_KEY, folder)


def inspect_ai(folder: Path, load: Load) -> Command:
    shutil.copy(HERE / "inspect_task.py", folder)
    made = [str(peer_python("inspect-ai").parent / "inspect"), "eval", "inspect_task.py"]
    made += [
        "-T",
        f"prompts={folder / 'prompts.jsonl'}",
        "-T",
        f"limit={load.rows}",
        "--model",
        "openai/mock",
    ]
    made += [
        "--model-base-url",
        "{url}/v1",
        "-M",
        "responses_api=false",
        "--log-dir",
        str(folder / "inspect"),
    ]
    made += ["--max-connections", str(load.in_flight), "--max-samples", str(load.in_flight)]
    return Command([*made, "--display", "none", "--no-log-realtime"], NO_KEY, folder)


def lm_eval(folder: Path, load: Load) -> Command:
    _lm_eval_task(folder)
    model = "model=mock,base_url={url}/v1/chat/completions,tokenized_requests=False"
    made = [str(peer_python("lm-eval").parent / "lm_eval"), "--model", "local-chat-completions"]
    made += ["--model_args", f"{model},num_concurrent={load.in_flight}", "--apply_chat_template"]
    made += [
        "--include_path",
        str(folder / "task"),
        "--tasks",
        "steelyard_benchmark",
        "--limit",
        str(load.rows),
    ]
    made += ["--output_path", str(folder / "lm-eval"), "--log_samples"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
    return Command(made, NO_KEY | offline, folder)


def _lm_eval_task(folder: Path) -> None:
    """JSON, which is YAML."""
    (folder / "task").mkdir(exist_ok=True)
    task = {
        "task": "steelyard_benchmark",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "prompts.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{target}}",
        "generation_kwargs": {"until": [], "max_gen_toks": 128},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }
    (folder / "task" / "benchmark.yaml").write_text(json.dumps(task))


Tool = Callable[[Path, Load], Command]
ENGINE, COMMAND, AUTO = "engine", "steelyard eval run", "the same, --concurrency auto"
OURS: Mapping[str, Tool] = {ENGINE: engine, COMMAND: command, AUTO: command_auto}
BARE_LOOP = "bare aiohttp loop"
BARE: Mapping[str, Tool] = {BARE_LOOP: bare}
INSPECT, LM_EVAL = "Inspect AI", "lm-eval"
PEERS: Mapping[str, Tool] = {INSPECT: inspect_ai, LM_EVAL: lm_eval}
ALL: Mapping[str, Tool] = {**OURS, **BARE, **PEERS}


@cache
def version(tool: str) -> str:
    """Return the version in the lock."""
    package = {"Inspect AI": "inspect-ai", "lm-eval": "lm-eval"}.get(tool)
    if package is None:
        return ""
    lock = (HERE.parent / "requirements" / f"{package}.txt").read_text()
    line = next(line for line in lock.splitlines() if line.startswith(f"{package}=="))
    return line.partition("==")[2].split()[0]
