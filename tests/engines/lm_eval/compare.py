"""Runs each task by lm-eval itself and by us, against servers that answer as real ones do, and compares every number.
Runs in lm-eval's own environment: `python -m tests.engines.lm_eval.compare FOLDER [SCENARIO …]`; exit status 1 where
anything differs.

lm-eval always asks the double of vLLM, with the same model: the others tell it too little (`/tokenize` of SGLang's and
llama.cpp's doubles is off, TGI's lists no tokens of a prompt). With a token for the beginning lm-eval's remote
tokenizer leaves that token away, and so scores another text than its `hf` backend; `with_bos` puts it back, as
add_bos_token does.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.utils import RemoteTokenizer

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.model_servers import BOS, EOS, ModelServer
from steelyard_evaluation.runs.compare import compare_runs
from tests.engines.lm_eval.server import RunningServer
from tests.engines.lm_eval.tasks import write_tasks

VLLM = ModelServer(kind="vllm", tokenizer_info=True)
WITH_BOS = ModelServer(kind="vllm", bos=True, tokenizer_info=True)
PLAIN = ("local_sums", "local_choices", "local_endings", "local_lists", "local_stops", "local_group")
WHOLE = ("local_glued", "local_nothing", "local_texts")


@dataclass(frozen=True)
class Scenario:
    """Tasks, and a server that we ask; `refused` says in what words a task is refused before it is paid."""

    name: str
    server: ModelServer
    tasks: tuple[str, ...]
    chat: bool = False
    arguments: str = ""
    refused: str = ""
    other: str = ""
    """Why our numbers differ from lm-eval's; then they have to."""


def fresh(server: ModelServer, **changes: JsonValue) -> ModelServer:
    return replace(server, bodies=[], vocabulary=type(server.vocabulary)(), **changes)


SCENARIOS = (
    Scenario("vLLM", VLLM, (*PLAIN, *WHOLE)),
    Scenario("vLLM with BOS", WITH_BOS, (*PLAIN, *WHOLE)),
    Scenario("vLLM, four stops", fresh(VLLM, most_stops=4), ("local_stops", "local_group")),
    Scenario("vLLM, one stop", fresh(VLLM, most_stops=1), ("local_sums", "local_stops")),
    Scenario("vLLM, short texts", fresh(VLLM, max_length=20), ("local_texts",)),
    Scenario("vLLM with BOS, short texts", fresh(WITH_BOS, max_length=20), ("local_texts",)),
    Scenario("chat", fresh(VLLM), ("local_sums",), chat=True),
    Scenario("SGLang", ModelServer(kind="sglang", tokenize=False), PLAIN),
    Scenario(
        "SGLang, whole texts",
        ModelServer(kind="sglang", tokenize=False),
        ("local_texts",),
        refused="/tokenize",
    ),
    Scenario("llama.cpp with BOS", ModelServer(kind="llama.cpp", bos=True, tokenize=False), PLAIN),
    Scenario(
        "llama.cpp, glued",
        ModelServer(kind="llama.cpp", tokenize=False),
        ("local_glued",),
        other="without a tokenizer the whole token at the border counts, and the report says so",
    ),
    Scenario("TGI", ModelServer(kind="tgi", tokenize=False), ("local_sums", "local_stops")),
    Scenario(
        "TGI, likelihoods",
        ModelServer(kind="tgi", tokenize=False),
        ("local_choices",),
        refused="lists no tokens",
    ),
)


@contextlib.contextmanager
def with_bos(wanted: bool) -> Iterator[None]:
    """lm-eval's remote tokenizer as its own add_bos_token would have it."""
    plain = RemoteTokenizer.encode

    def encode(self: JsonValue, text: str) -> list[int]:
        ids = plain(self, text)
        return ids if text in (BOS, EOS) else [*plain(self, BOS), *ids]

    if wanted:
        RemoteTokenizer.encode = encode
    try:
        yield
    finally:
        RemoteTokenizer.encode = plain


@cache
def manager(folder: Path) -> TaskManager:
    """The tasks of the folder alone: reading all of lm-eval's own takes longer than a comparison."""
    return TaskManager(include_path=str(folder), include_defaults=False)


def by_lm_eval(task: str, scenario: Scenario, folder: Path, documents: list[int] | None = None) -> JsonValue:
    """lm-eval's own models of a local endpoint: of completions with the server's tokenizer, of chat with none.

    All documents are asked, or those alone.
    """
    chat = scenario.chat
    reference = ModelServer(
        kind="vllm", bos=scenario.server.bos, tokenizer_info=True, max_length=scenario.server.max_length
    )
    served = RunningServer(reference)
    kind = "chat-completions" if chat else "completions"
    model_args = {
        "model": "m",
        "base_url": f"{served.root}/v1/{'chat/' if chat else ''}completions",
        "tokenizer_backend": None if chat else "remote",
        "num_concurrent": 4,
        "max_length": reference.max_length,
    }
    try:
        with with_bos(reference.bos and not chat):
            evaluated = simple_evaluate(
                model=f"local-{kind}",
                apply_chat_template=chat,
                model_args=model_args,
                tasks=[task],
                task_manager=manager(folder),
                log_samples=False,
                samples=None if documents is None else {task: documents},
            )
    finally:
        served.close()
    return evaluated["results"]


def by_us(task: str, scenario: Scenario, served: RunningServer, folder: Path) -> tuple[int, str, JsonValue]:
    """The exit status, the output, and the numbers of the report."""
    run = run_folder(scenario.name, task, folder)
    arguments = f"?include_path={folder}{scenario.arguments}{'&chat=true' if scenario.chat else ''}"
    options = ("--task", f"lm_eval:{task}{arguments}", "--url", f"{served.root}/v1", "--model", "m")
    status, said = steelyard("eval", "run", *options, "--output", str(run), "--display", "plain")
    report = run / "report.json"
    return status, said, json.loads(report.read_text()) if report.exists() else None


def run_folder(scenario: str, task: str, folder: Path) -> Path:
    """Return a folder beside the tasks' folder, which lm-eval searches for tasks."""
    return folder.parent / f"runs-{folder.name}" / f"{scenario.replace(' ', '-').replace(',', '')}-{task}"


def steelyard(*arguments: str) -> tuple[int, str]:
    """The exit status of a command of ours, and what it said."""
    command = (sys.executable, "-c", "from steelyard.cli.main import main; main()", *arguments)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stderr + done.stdout


def numbers_of(results: JsonValue) -> dict[str, float]:
    return {
        f"{task}: {key}": value
        for task, numbers in results.items()
        for key, value in numbers.items()
        if "," in key and isinstance(value, int | float)
    }


def same(one: dict[str, float], other: dict[str, float]) -> bool:
    """Equal to the last digits: sums of likelihoods are added in another order."""
    return one.keys() == other.keys() and all(
        math.isclose(value, other[key], rel_tol=1e-12, abs_tol=1e-12) for key, value in one.items()
    )


def compared(task: str, scenario: Scenario, folder: Path) -> bool:
    """True if everything is as it should be; the findings are printed."""
    served = RunningServer(scenario.server)
    name = f"{scenario.name}: {task}"
    try:
        before = served.asked
        status, said, report = by_us(task, scenario, served, folder)
        calls = served.asked - before
        if scenario.refused:
            right = status == 2 and scenario.refused in said and calls <= 1
            print(f"{name}: {'refused' if right else 'NOT REFUSED'} after {calls} calls", flush=True)
            return right or _failed(said)
        theirs = numbers_of(by_lm_eval(task, scenario, folder))
        ours = numbers_of(report["lmEval"]["results"]) if report else {}
        status_again = by_us(task, scenario, served, folder)[0] if task == "local_sums" else 0
        paid_again = served.asked - before - calls
    finally:
        served.close()
    right = bool(theirs) and (status, status_again, paid_again) == (0, 0, 0)
    agree = same(ours, theirs)
    right = right and agree is not bool(scenario.other)
    verdict = "are the same" if agree else f"differ: {scenario.other}" if right else "DIFFER"
    print(f"{name}: {len(theirs)} numbers {verdict}; {calls} calls, {paid_again} again", flush=True)
    return right or _failed(f"  lm-eval {theirs}\n  ours    {ours} (exit {status}, {status_again})\n{said}")


SILENT = ModelServer(kind="vllm", refuses="river.* at last$")
"""Refuses one choice of the documents whose question names the river."""


def silence_is_reported(folder: Path) -> bool:
    """Documents that lack an answer are wrong, bounded and counted; show, compare and verify say the same."""
    rows = [json.loads(line) for line in (folder / "choices.jsonl").read_text().splitlines()]
    answered = [
        number for number, row in enumerate(rows) if not {"river", "river at last"} & {*row["choices"]}
    ]
    lenient = Scenario("silence", SILENT, (), arguments="&max_failed=1")
    strict, whole = replace(lenient, name="strict", arguments=""), replace(lenient, name="whole", server=VLLM)
    numbers = {}
    for scenario in (lenient, strict, whole):
        served = RunningServer(fresh(scenario.server))
        numbers[scenario.name] = by_us("local_choices", scenario, served, folder)
        served.close()
    theirs = numbers_of(by_lm_eval("local_choices", whole, folder, answered))
    status, said, report = numbers["silence"]
    run, other = (run_folder(name, "local_choices", folder) for name in ("silence", "whole"))
    compared_with = compare_runs([other, run]).others[0].comparison
    lead, share = report["metrics"][0], len(answered) / len(rows)
    checks = {
        "exit status 3": (status, numbers["strict"][0], numbers["whole"][0]) == (3, 3, 0),
        "lm-eval's own numbers of the others": same(numbers_of(report["lmEval"]["results"]), theirs),
        "failed documents count as wrong": math.isclose(
            lead["value"], theirs["local_choices: acc,none"] * share, rel_tol=1e-9
        ),
        "bounds": math.isclose(
            report["bounds"]["allFailedRight"] - report["bounds"]["allFailedWrong"], 1 - share, rel_tol=1e-9
        ),
        "counts": report["counts"]
        == {"scored": len(answered), "failed": len(rows) - len(answered), "leftOut": 0},
        "no headline above max_failed": numbers["strict"][2]["metrics"][0]["value"] is None,
        "compare counts documents": compared_with.questions == len(rows)
        and math.isclose(compared_with.system.value or -1, lead["value"], rel_tol=1e-9),
        "verify": steelyard("report", "verify", str(run / "report.html"))[0] == 0,
    }
    wrong = [name for name, right in checks.items() if not right]
    print(
        f"silence: {len(rows) - len(answered)} of {len(rows)} documents failed; {wrong or 'all as it should be'}",
        flush=True,
    )
    return not wrong or _failed(f"{said}\n{json.dumps(report['metrics'])}\n{theirs}")


def _failed(text: str) -> bool:
    print(text)
    return False


def main() -> int:
    folder = Path(sys.argv[1]).absolute()
    os.chdir(folder)
    write_tasks(folder)
    wanted = sys.argv[2:]
    pairs = [
        (task, scenario)
        for scenario in SCENARIOS
        for task in scenario.tasks
        if not wanted or scenario.name in wanted or task in wanted
    ]
    wrong = sum(not compared(task, scenario, folder) for task, scenario in pairs)
    if not wanted or "silence" in wanted:
        wrong += not silence_is_reported(folder)
    print(f"{len(pairs)} tasks compared, {wrong} not as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
