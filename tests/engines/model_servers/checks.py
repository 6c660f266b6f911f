"""Checks of evaluations of a real server, whichever it is. Each prints a line, or raises AssertionError."""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from steelyard_common import processes
from steelyard_common.types import JsonValue
from tests.engines.model_servers import prepared
from tests.engines.model_servers.serving import PATIENCE, Running, until
from tests.source import FOLDERS, ROOT, write_metadata

CLOSE = 1e-4
ENDINGS = {"stop", "length"}


def say(text: str) -> None:
    print(text, flush=True)


def evaluation(server: Running, folder: Path, *more: str) -> list[str]:
    """The command of an evaluation of a server."""
    options = ["--url", server.plan.url, "--model", server.plan.serving.name, "--output", str(folder)]
    return [sys.executable, "-m", "steelyard.cli.main", "eval", "run", *options, *more]


def write_prompts(path: Path, prompts: Sequence[str]) -> Path:
    path.write_text("".join(json.dumps({"prompt": prompt, "target": "x"}) + "\n" for prompt in prompts))
    return path


def run(command: Sequence[str], settings: Mapping[str, str] | None = None) -> tuple[int, str]:
    """The exit status of a command, and what it said."""
    done = subprocess.run(
        command,
        env={**os.environ, **(settings or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout


def answers(folder: Path) -> list[JsonValue]:
    """The rows of a verified run."""
    files = sorted((folder / "outputs").glob("part-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def chat_and_completions(server: Running, scratch: Path) -> None:
    """Each API answers every row, and the answers to one prompt at temperature 0 are the same."""
    prompts = [f"def function_{number % 10}(self" for number in range(30)]
    rows = write_prompts(scratch / "p.jsonl", prompts)
    for api in ("chat", "completions"):
        folder = scratch / api
        options = (str(rows), "--api", api, "--max-tokens", "12", "--temperature", "0", "--display", "plain")
        status, said = run(evaluation(server, folder, *options))
        assert status == 0, said
        texts = {row["_index_"]: row["responses"][0]["text"] for row in answers(folder)}
        assert len(texts) == len(prompts)
        assert any(texts.values()), "answers are not all empty"
        same = [texts[number] == texts[number % 10] for number in texts]
        # Batches of another size add up in another order, and one token may tip over.
        assert sum(same) >= 0.8 * len(same), same
    say(f"{server.plan.kind.name}: chat and completions answer {2 * len(prompts)} rows")


def too_long_prompts(server: Running, scratch: Path) -> None:
    """A prompt that does not fit fails alone, with the server's words."""
    rows = write_prompts(scratch / "long.jsonl", ["short", "def self " * 2000, "short too"])
    folder = scratch / "long"
    status, said = run(
        evaluation(
            server, folder, str(rows), "--api", "completions", "--max-tokens", "4", "--display", "plain"
        )
    )
    assert status == 3, said
    answered = {row["_index_"] for row in answers(folder) if row["responses"]}
    assert answered == {0, 2}, said
    errors = [
        row
        for file in (folder / "outputs" / ".steelyard" / "errors").glob("*.parquet")
        for row in pq.read_table(file).to_pylist()
    ]
    assert [(row["_index_"], row["reason"]) for row in errors] == [(1, "BadRequest")], errors
    assert "1024" in errors[0]["body"], errors
    say(f"{server.plan.kind.name}: a prompt that is too long fails alone")


def wrong_parameter(server: Running, scratch: Path) -> None:
    """A parameter that is refused for every row ends the run in one line, and nothing is scored."""
    rows = write_prompts(scratch / "wrong.jsonl", [f"row {number}" for number in range(40)])
    options = (str(rows), "--param", "temperature=-3", "--rubric", "exact-match", "--display", "plain")
    status, said = run(evaluation(server, scratch / "wrong", *options))
    assert status not in (0, 3), said
    assert not (scratch / "wrong" / "report.json").exists()
    # A library of the command's may warn after it.
    named = [line for line in said.splitlines() if "temperature" in line]
    assert named, said
    say(f"{server.plan.kind.name}: a wrong parameter is one line: {named[-1][:140]}")


def run_lm_eval(server: Running, folder: Path, task: str, scratch: Path, more: str = "") -> tuple[int, str]:
    """Run one of lm-eval's tasks by our command, in lm-eval's environment, with more options of the task."""
    info = scratch / "info"
    if not info.exists():
        info.mkdir()
        write_metadata(info)
    settings = {
        "PYTHONPATH": os.pathsep.join(map(str, (info, *FOLDERS, ROOT))),
        "HF_HOME": str(scratch / "hf"),
        "HF_HUB_OFFLINE": "1",
    }
    options = ("--task", f"lm_eval:{task}?include_path={prepared.tasks()}{more}", "--display", "plain")
    start = [str(prepared.lm_eval_python()), "-c", "from steelyard.cli.main import main; main()"]
    return run([*start, *evaluation(server, folder, *options)[3:]], settings)


def numbers_of_lm_eval(
    server: Running, model: str, scratch: Path, tasks: Sequence[str], more: str = ""
) -> None:
    """Every number of lm-eval's tasks through our command is that of its own `hf` backend on the same folder."""
    theirs = prepared.reference(model)
    compared = 0
    for task in tasks:
        folder = scratch / f"{model}-{task}"
        status, said = run_lm_eval(server, folder, task, scratch, more)
        assert status == 0, f"{task}: {said}"
        results = json.loads((folder / "report.json").read_text())["lmEval"]["results"]
        ours = {
            f"{name}: {key}": value
            for name, numbers in results.items()
            for key, value in numbers.items()
            if "," in key and "stderr" not in key and isinstance(value, int | float)
        }
        assert ours, f"{task}: has no numbers"
        for name, value in ours.items():
            assert math.isclose(value, theirs[name], rel_tol=CLOSE, abs_tol=CLOSE), (
                name,
                value,
                theirs[name],
            )
        compared += len(ours)
    say(
        f"{server.plan.kind.name}, {model}: {compared} numbers of {len(tasks)} tasks are those of lm-eval's hf backend"
    )


def likelihoods_refused(server: Running, scratch: Path) -> None:
    """Likelihoods that the server pairs with the wrong tokens are refused before a row is asked."""
    status, said = run_lm_eval(server, scratch / "refused", "local_choices", scratch)
    assert status == 2, said
    assert "one place too late" in " ".join(said.split()), said
    assert server.answered == 1, "one small request was enough"
    say(f"{server.plan.kind.name}: likelihoods that stand at the wrong tokens are refused")


def ended_in_the_middle(server: Running, number: int, scratch: Path, rows: int) -> None:
    """A server that ends in the middle is started again; no answer that was cut short is kept, none is asked twice."""
    prompts = write_prompts(scratch / f"ended-{number}.jsonl", [f"def f{k}(self" for k in range(rows)])
    folder = scratch / f"ended-{number}"
    options = (str(prompts), "--concurrency", "8", "--max-tokens", "200", "--param", "min_tokens=100")
    command = evaluation(server, folder, *options, "--temperature", "0", "--display", "json")
    before = server.restarts
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        events = _events(process)
        done = next(event["done"] for event in events if event["event"] == "progress" and event["done"] >= 8)
        own = server.end(number)
        kept = done
        for event in events:
            if event["event"] == "progress":
                if server.restarts > before and not _is_ready(server):
                    kept = max(kept, event["done"])
                assert event["done"] >= done
        assert process.wait(PATIENCE) == 0
    # A server that is asked to end may answer first what it has taken, on a busy machine all rows.
    until(lambda: server.restarts > before, "the server that was asked to end goes on")
    assert server.restarts == before + 1, f"{server.restarts - before} restarts"
    assert kept < rows, "it ended in the middle"
    results = answers(folder)
    assert sorted(row["_index_"] for row in results) == list(range(rows))
    endings = {row["responses"][0]["finish_reason"] for row in results}
    assert endings <= ENDINGS, endings
    until(lambda: server.answered >= rows - kept, "the log has every answer")
    assert server.answered == rows - kept, (server.answered, rows, kept)
    assert not [pid for pid in own if processes.start_time(pid) is not None], (
        "processes of the first server stay"
    )
    say(
        f"{server.plan.kind.name}: after signal {number} with {kept} of {rows} answers, {rows - kept} were asked"
    )


def _events(process: "subprocess.Popen[str]") -> Iterator[JsonValue]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def _is_ready(server: Running) -> bool:
    return server.said[-1].startswith("ready after")


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="steelyard-model-servers-")
