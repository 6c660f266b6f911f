"""Processor time of lm-eval's tasks through `steelyard eval run`, beside lm-eval's own command, in one run.

`python -m benchmarks.lm_eval_tasks`: both in the environment of the engine suite, in turns, against one double of a
model server in a process of its own. What counts is user and system time of the command with all that it starts, the
server's not; the aim is lm-eval's own and 10 %.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.engines.lm_eval.suite import LOCK
from tests.engines.lm_eval.tasks import write_tasks
from tests.engines.locked import environment
from tests.source import FOLDERS, write_metadata

ROOT = Path(__file__).parent.parent.parent
TASKS = ("local_sums", "local_choices")
SERVER = """
import sys, time
from steelyard_evaluation.engine.model_servers import ModelServer
from tests.engines.lm_eval.server import Served
print(Served(ModelServer(tokenizer_info=True)).root, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class CommandCost:
    """Time and memory that a command took."""

    processor: float
    wall: float


def measured(command: Sequence[str], settings: dict[str, str], folder: Path) -> CommandCost:
    """Run it to its end, and measure it with all that it waited for."""
    before = os.times()
    with (folder / "log").open("ab") as log:
        done = subprocess.run(command, cwd=folder, env=settings, stdout=log, stderr=log, check=False)
    after = os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}, see {folder / 'log'}")
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return CommandCost(user + system, after.elapsed - before.elapsed)


def ours(python: Path, task: str, root: str, folder: Path, number: int) -> list[str]:
    """The command, into a folder of its own each time."""
    return [
        *(str(python), "-c", "from steelyard.cli.main import main; main()", "eval", "run"),
        *("--task", f"lm_eval:{task}?include_path={folder}", "--url", f"{root}/v1", "--model", "m"),
        *("--output", str(folder / f"{task}-{number}"), "--display", "none", "--concurrency", "64"),
    ]


def theirs(python: Path, task: str, root: str, folder: Path, number: int) -> list[str]:
    """lm-eval's own command; generations need no tokenizer there, likelihoods the server's."""
    tokenizer = "remote" if task == "local_choices" else "None"
    model_args = f"model=m,base_url={root}/v1/completions,num_concurrent=64,tokenizer_backend={tokenizer}"
    model_args += ",tokenized_requests=False" if tokenizer == "None" else ""
    return [
        *(str(python), "-m", "lm_eval", "run", "--model", "local-completions", "--model_args", model_args),
        *("--tasks", task, "--include_path", str(folder), "--output_path", str(folder / f"theirs-{number}")),
        "--log_samples",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lm_eval_tasks")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK")
    arguments = parser.parse_args()
    python = environment("lm-eval", LOCK)
    with tempfile.TemporaryDirectory(prefix="steelyard-lm-eval-") as scratch:
        folder, info = Path(scratch) / "tasks", Path(scratch) / "info"
        folder.mkdir()
        info.mkdir()
        write_tasks(folder, arguments.documents)
        write_metadata(info)
        settings = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, (info, *FOLDERS, ROOT))),
            "HF_HOME": str(Path(scratch) / "hf"),
            "HF_HUB_OFFLINE": "1",
            "TQDM_DISABLE": "1",
        }
        server = subprocess.Popen(
            [str(python), "-c", SERVER],
            env=settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        root = server.stdout.readline().strip()
        try:
            for task in arguments.only:
                for line in compared(task, (python, root, folder), settings, arguments.runs):
                    print(line, flush=True)
        finally:
            server.terminate()
            server.wait()


def compared(task: str, place: tuple[Path, str, Path], settings: dict[str, str], runs: int) -> Sequence[str]:
    """A line of figures for each of both, the medians of several runs in turns, and their ratio as JSON."""
    python, root, folder = place
    spent: dict[str, list[CommandCost]] = {"steelyard": [], "lm-eval": []}
    for number in range(runs):
        spent["lm-eval"].append(measured(theirs(python, task, root, folder, number), settings, folder))
        spent["steelyard"].append(measured(ours(python, task, root, folder, number), settings, folder))
    middle = {
        name: CommandCost(
            statistics.median(one.processor for one in several),
            statistics.median(one.wall for one in several),
        )
        for name, several in spent.items()
    }
    ratio = middle["steelyard"].processor / middle["lm-eval"].processor
    return [
        *(
            f"{task}: {name} {one.processor:.2f} s of processor, {one.wall:.2f} s"
            for name, one in middle.items()
        ),
        json.dumps({"task": task, "processorOverLmEval": round(ratio, 3)}),
    ]


if __name__ == "__main__":
    main()
