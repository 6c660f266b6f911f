"""Names of lm-eval's tasks with their settings: `lm_eval:arc_easy?num_fewshot=5&limit=100`."""

from dataclasses import dataclass, fields
from urllib.parse import parse_qsl, quote, urlencode

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.report.errors import NotInstalled

PREFIX = "lm_eval:"
MAX_FAILED = 0.05
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
