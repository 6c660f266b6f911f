"""Tasks of an installed lm-eval as runs: `--task lm_eval:NAME`.

lm-eval builds the requests, our engine makes the calls, and lm-eval's own code scores the answers (`lm_eval.rubric`).
`NAME` may have arguments: `lm_eval:arc_easy?num_fewshot=5&limit=100`.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

import orjson

from steelyard.durable import rename_durably
from steelyard.errors import UsageError
from steelyard.report.errors import NotInstalled
from steelyard.runs.prompts.render import GENERATE
from steelyard.runs.request import PromptSpec, RubricSpec, RunRequest, SourceSpec, canonical
from steelyard.runs.resolve import RUNS
from steelyard_common.types import JsonValue

PREFIX = "lm_eval:"
MAX_FAILED = 0.05
RUBRICS = {"lm_eval.Task", "task"}
"""The rubric that scores these tasks, and its alias."""
SETTINGS = "settings"
"""The column of a row's own parameters, where a group's tasks differ in them."""
_DEFAULTS = {"include_path": "", "max_failed": MAX_FAILED, "think_end_token": ""}
_NUMBERS = {"num_fewshot", "limit", "prefix_token_id", "max_length"}
MISSING = "lm-eval is not installed here: pip install 'lm-eval==0.4.13' (next to steelyard)"


class NoLmEval(NotInstalled):
    """lm-eval is not there."""


@dataclass(frozen=True)
class TaskName:
    """A task and its settings: the arguments of lm-eval's own command of the same names."""

    task: str
    include_path: str = ""
    num_fewshot: int | None = None
    limit: int | None = None
    """Documents of each task."""
    chat: bool = False
    """Requests as messages (lm-eval's --apply_chat_template), for chat endpoints."""
    max_failed: float = MAX_FAILED
    """The largest share of documents that may fail; above it there is no headline."""
    prefix_token_id: int | None = None
    """The token before a text whose tokens all count (lm-eval's custom_prefix_token_id)."""
    max_length: int | None = None
    """Tokens that the model takes at once; by default what the endpoint reports."""
    think_end_token: str = ""
    """The text behind which an answer begins, after the model's thoughts (lm-eval's model argument of that name)."""

    @property
    def reference(self) -> str:
        """The rubric that scores it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arguments = {
            name: "true" if value is True else value
            for name, value in values.items()
            if value is not None and value is not False and value != _DEFAULTS.get(name)
        }
        return f"lm_eval.Task?{urlencode(arguments, quote_via=quote)}"


def parse_name(text: str) -> TaskName:
    """`lm_eval:NAME?argument=value`; UsageError says what is wrong with it."""
    if not text.startswith(PREFIX):
        raise UsageError(f"--task {text}: should be lm_eval:NAME, a task of the installed lm-eval")
    name, _, query = text.removeprefix(PREFIX).partition("?")
    if not name:
        raise UsageError(f"--task {text}: should name a task, such as lm_eval:arc_easy")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    arguments: dict[str, JsonValue] = {}
    for key, value in parameters.items():
        match key:
            case _ if key in _NUMBERS:
                if not value.isdecimal():
                    raise UsageError(f"--task {text}: {key}={value} should be a whole number")
                arguments[key] = int(value)
            case "max_failed":
                arguments[key] = _share(text, value)
            case "chat" if value in {"true", "false"}:
                arguments[key] = value == "true"
            case "chat":
                raise UsageError(f"--task {text}: chat={value} should be true or false")
            case "include_path" | "think_end_token":
                arguments[key] = value
            case _:
                allowed = ", ".join(field.name for field in fields(TaskName) if field.name != "task")
                raise UsageError(f"--task {text}: there is no argument {key!r}; there are {allowed}")
    return TaskName(name, **arguments)


def _share(text: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"--task {text}: max_failed={value} should be a number from 0 to 1, such as 0.05")
    return share


def task_request(text: str) -> RunRequest:
    """The requests of a task as a prompt file, and what to ask of it. Blocking: lm-eval loads its data."""
    name = parse_name(text)
    from steelyard.runs.lm_eval.process import build

    requests = build(name)
    generations = [request for request in requests if request["kind"] == GENERATE]
    settings = {canonical(request["settings"]): request["settings"] for request in generations}
    # A group's tasks may differ in stops or lengths: then each row carries its own parameters.
    alike = len(settings) < 2
    mixed = len(generations) < len(requests)
    prompt = PromptSpec(
        api="loglikelihood" if mixed else "chat" if name.chat else "completions",
        sampling=next(iter(settings.values()), {}) if alike else {},
        settings=None if alike else SETTINGS,
        prefix_token_id=name.prefix_token_id,
        max_length=name.max_length,
    )
    return RunRequest(
        source=SourceSpec(str(_kept(name, _lines(requests, alike=alike)))),
        model="",
        urls=(),
        prompt=prompt,
        rubrics=(RubricSpec(name.reference),),
    )


def check_asked_whole(request: RunRequest) -> None:
    """UsageError for a run that would ask lm-eval's requests in part, or several times: it could not be scored."""
    if not any(rubric.reference.partition("?")[0] in RUBRICS for rubric in request.rubrics):
        return
    source = request.source
    for flag, value in (("--limit", source.limit), ("--sample", source.sample)):
        if value is not None:
            raise UsageError(
                f"{flag} {value}: would leave out requests of lm-eval's task; to ask fewer documents, use "
                "--task 'lm_eval:NAME?limit=N'"
            )
    if request.replications > 1:
        raise UsageError(
            f"--replications {request.replications}: lm-eval's tasks say themselves how often they ask; leave it out"
        )


def _lines(requests: Sequence[Mapping[str, JsonValue]], *, alike: bool) -> Iterator[dict[str, JsonValue]]:
    """The rows of the prompt file; each has its own settings where these are not all alike."""
    for request in requests:
        line = {name: value for name, value in request.items() if name != "settings"}
        yield line if alike else line | {SETTINGS: canonical(request["settings"]).decode()}


def _kept(name: TaskName, lines: Iterator[dict[str, JsonValue]]) -> Path:
    """The prompt file, in a folder named by what it holds."""
    data = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
    folder = RUNS / ".tasks" / hashlib.sha256(data).hexdigest()[:12]
    path = folder / f"lm_eval-{name.task.replace('/', '-').replace('.', '-')}.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # The name says the content, so two processes that write it at once agree; each has a scratch file of its own.
        scratch = folder / f".#{os.getpid()}"
        scratch.write_bytes(data)
        rename_durably(scratch, path)
    return path
