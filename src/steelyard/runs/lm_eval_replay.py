"""lm-eval's scoring of stored answers, in a process of its own: its pools of processes and its log stay out of ours.

`replay` starts it; `python -m steelyard.runs.lm_eval_replay` is that process: answers on stdin, results on stdout.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from steelyard.errors import SteelyardError, UsageError
from steelyard.report.errors import ReportFailed
from steelyard.runs.lm_eval_tasks import TaskName

Json = Any
Row = Mapping[str, Json]


class CannotReplay(UsageError):
    """The answers are not those to the requests that lm-eval builds here."""


def replay(name: TaskName, rows: Sequence[Row]) -> dict[str, Json]:
    """lm-eval's dictionary of results. ReportFailed says why there is none."""
    asked = json.dumps({"name": asdict(name), "rows": list(rows)})
    command = [sys.executable, "-m", "steelyard.runs.lm_eval_replay"]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        command,
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    try:
        found = json.loads(done.stdout.rpartition("\n")[2])
    except json.JSONDecodeError:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise ReportFailed("LmEvalFailed", f"lm-eval cannot score the answers: {last[0]}") from None
    if "error" in found:
        raise ReportFailed("LmEvalFailed", found["error"])
    results: dict[str, Json] = found["results"]
    return results


def scored(name: TaskName, rows: Sequence[Row]) -> dict[str, Json]:
    """In the process: the answers to the requests that lm-eval builds again."""
    from steelyard.runs.lm_eval_model import Request, score

    places = {row["_index_"]: row for row in rows}
    if len(places) < len(rows):
        raise CannotReplay("lm-eval's tasks say themselves how often they ask; leave out --replications")

    def answer(number: int, request: Request) -> Json:
        row = places.get(number)
        if row is None:
            raise CannotReplay(
                f"request {number} of lm-eval was not asked; to ask fewer, use --task lm_eval:{name.task}?limit=N"
            )
        if row["prompt"] != text_of(request.prompt):
            raise CannotReplay(f"row {number}: lm-eval builds another request here than was asked")
        said = row["prediction"]
        if request.kind == "generate_until":
            return said or ""
        return (float("-inf"), False) if said is None else (row["likelihood"], row["greedy"])

    return score(name, answer)


def text_of(prompt: Json) -> str:
    return prompt if isinstance(prompt, str) else orjson.dumps(prompt).decode()


def main() -> int:
    asked = json.load(sys.stdin)
    try:
        found: Json = {"results": scored(TaskName(**asked["name"]), asked["rows"])}
    except SteelyardError as error:
        found = {"error": str(error)}
    print("\n" + json.dumps(found, default=_plain), end="", flush=True)
    return 0


def _plain(value: Json) -> Json:
    """Numbers of numpy as numbers, anything else as text."""
    return value.item() if hasattr(value, "item") else str(value)


if __name__ == "__main__":
    sys.exit(main())
