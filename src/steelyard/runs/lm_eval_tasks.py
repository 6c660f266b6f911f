"""Tasks of an installed lm-eval as runs: `--task lm_eval:NAME`.

lm-eval builds the requests, our engine makes the calls, and lm-eval's own code scores what was answered
(`lm_eval_rubric`). `NAME` may have arguments: `lm_eval:arc_easy?num_fewshot=5&limit=100`.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import orjson

from steelyard.errors import UsageError
from steelyard.runs.asked import RUNS
from steelyard.runs.request import Api, PromptSpec, RubricSpec, RunRequest, SourceSpec

Json = Any
PREFIX = "lm_eval:"
MISSING = "lm-eval is not installed here: pip install 'lm-eval==0.4.13' (beside steelyard)"


class NoLmEval(UsageError):
    """lm-eval is not there."""


@dataclass(frozen=True)
class TaskName:
    """Which task, and how it is set up: the arguments of lm-eval's own command of the same names."""

    task: str
    include_path: str = ""
    num_fewshot: int | None = None
    limit: int | None = None
    """Documents of each task."""
    chat: bool = False
    """Requests as messages (lm-eval's --apply_chat_template), for chat endpoints."""

    @property
    def reference(self) -> str:
        """The rubric that scores it."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        told = {
            name: "true" if value is True else value
            for name, value in given.items()
            if value is not None and value is not False and value != ""
        }
        return f"lm_eval.Task?{urlencode(told, quote_via=quote)}"


def parse_name(text: str) -> TaskName:
    """`lm_eval:NAME?argument=value`; UsageError says what is wrong with it."""
    if not text.startswith(PREFIX):
        raise UsageError(f"--task {text}: should be lm_eval:NAME, a task of the installed lm-eval")
    name, _, query = text.removeprefix(PREFIX).partition("?")
    if not name:
        raise UsageError(f"--task {text}: should name a task, such as lm_eval:arc_easy")
    given = dict(parse_qsl(query, keep_blank_values=True))
    arguments: dict[str, Json] = {}
    for key, value in given.items():
        match key:
            case "num_fewshot" | "limit" if value.isdigit():
                arguments[key] = int(value)
            case "num_fewshot" | "limit":
                raise UsageError(f"--task {text}: {key}={value} should be a whole number")
            case "chat" if value in {"true", "false"}:
                arguments[key] = value == "true"
            case "chat":
                raise UsageError(f"--task {text}: chat={value} should be true or false")
            case "include_path":
                arguments[key] = value
            case _:
                allowed = ", ".join(field.name for field in fields(TaskName) if field.name != "task")
                raise UsageError(f"--task {text}: there is no argument {key!r}; there are {allowed}")
    return TaskName(name, **arguments)


def task_request(text: str) -> RunRequest:
    """The requests of a task as a prompt file, and what to ask of it. Blocking: lm-eval loads its data."""
    name = parse_name(text)
    from steelyard.runs.lm_eval_model import Built, build

    built: Built = build(name)
    kinds = {request.kind for request in built.requests}
    settings = {orjson.dumps(request.settings, option=orjson.OPT_SORT_KEYS) for request in built.requests}
    if len(kinds) > 1 or len(settings) > 1:
        tasks = ", ".join(dict.fromkeys(request.task for request in built.requests))
        raise UsageError(
            f"--task {text}: its tasks ask with different settings; run them one by one: {tasks}"
        )
    return RunRequest(
        source=SourceSpec(str(_kept(name, built.lines()))),
        model="",
        urls=(),
        prompt=PromptSpec(api=_api(kinds.pop(), chat=name.chat), sampling=built.requests[0].settings),
        rubrics=(RubricSpec(name.reference),),
    )


def _api(kind: str, *, chat: bool) -> Api:
    if kind == "loglikelihood":
        return "loglikelihood"
    return "chat" if chat else "completions"


def _kept(name: TaskName, lines: Sequence[dict[str, Json]] | Iterator[dict[str, Json]]) -> Path:
    """The prompt file, in a folder named by what it holds."""
    data = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
    folder = RUNS / ".tasks" / hashlib.sha256(data).hexdigest()[:12]
    path = folder / f"lm_eval-{name.task.replace('/', '-').replace('.', '-')}.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f".#{os.getpid()}"
        scratch.write_bytes(data)
        scratch.replace(path)
    return path
