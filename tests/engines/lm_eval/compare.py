"""Runs each task by lm-eval itself and by us, against one server, and compares every number. Runs in lm-eval's own
environment: `python -m tests.engines.lm_eval.compare FOLDER`; exit status 1 where anything differs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

from tests.engines.lm_eval.server import Server
from tests.engines.lm_eval.tasks import TASKS, write_tasks

Json = Any


def by_lm_eval(task: str, server: Server, folder: Path, chat: bool) -> Json:
    """lm-eval's own models of a local endpoint: of completions with the server's tokenizer, of chat with none."""
    kind = "chat-completions" if chat else "completions"
    model_args = {
        "model": "m",
        "base_url": f"{server.root}/v1/{'chat/' if chat else ''}completions",
        "tokenizer_backend": None if chat else "remote",
        "num_concurrent": 4,
    }
    found = simple_evaluate(
        model=f"local-{kind}",
        apply_chat_template=chat,
        model_args=model_args,
        tasks=[task],
        task_manager=TaskManager(include_path=str(folder)),
        log_samples=False,
    )
    return found["results"][task]


def by_us(task: str, server: Server, folder: Path, chat: bool) -> tuple[int, Json]:
    """The command, and the numbers of its report."""
    run = folder / f"run-{task}-{chat}"
    command = [
        *(sys.executable, "-c", "from steelyard.cli.main import main; main()"),
        *("eval", "run", "--task", f"lm_eval:{task}?include_path={folder}{'&chat=true' if chat else ''}"),
        *("--url", f"{server.root}/v1", "--model", "m", "--output", str(run), "--display", "none"),
    ]
    status = subprocess.run(command, check=False).returncode
    report = run / "report.json"
    return status, json.loads(report.read_text()) if report.exists() else None


def numbers(results: Json) -> dict[str, float]:
    return {key: value for key, value in results.items() if "," in key and isinstance(value, int | float)}


def in_report(report: Json, task: str) -> dict[str, float]:
    """`lmEval` wherever the report keeps what its rubric found."""
    found: list[Json] = []

    def look(value: Json) -> None:
        if isinstance(value, dict):
            if "lmEval" in value:
                found.append(value["lmEval"]["results"][task])
            for each in value.values():
                look(each)
        elif isinstance(value, list):
            for each in value:
                look(each)

    look(report)
    return numbers(found[0]) if found else {}


def main() -> int:
    folder = Path(sys.argv[1]).absolute()
    os.chdir(folder)
    write_tasks(folder)
    server = Server()
    wrong = 0
    for task, chat in [*((task, False) for task in TASKS), ("local_sums", True)]:
        theirs = numbers(by_lm_eval(task, server, folder, chat))
        asked = len(server.bodies)
        status, report = by_us(task, server, folder, chat)
        calls = len(server.bodies) - asked
        ours = in_report(report, task)
        same = bool(theirs) and status == 0 and ours == theirs
        again = by_us(task, server, folder, chat)[0] if task == "local_sums" else 0
        paid_again = len(server.bodies) - asked - calls
        same = same and again == 0 and paid_again == 0
        wrong += not same
        print(
            f"{task}{' (chat)' if chat else ''}: {len(theirs)} numbers {'are the same' if same else 'DIFFER'}; "
            f"{calls} calls, {paid_again} again"
        )
        if not same:
            print(f"  lm-eval {theirs}\n  ours    {ours} (exit {status}, {again})")
    server.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
