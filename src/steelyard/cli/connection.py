"""The options with which every command finds the platform, and the kinds as users write them."""

import functools
import inspect
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from steelyard.client import Client
    from steelyard.local.state import StateDir

EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        help="Address of the API, with /v0; by default STEELYARD_API_ENDPOINT, DYFF_API_ENDPOINT, or what runs here.",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", help="By default STEELYARD_API_TOKEN, DYFF_API_TOKEN, or that of what runs here."
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(help="The state folder of the steelyard up to talk to, before all else."),
]
OutputOption = Annotated[str, typer.Option("--output", "-o", help="table, json, yaml or name")]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="The state folder; by default ./.steelyard where there is one, else $XDG_STATE_HOME/steelyard or "
        "~/.local/state/steelyard.",
    ),
]

SHORT = {
    "ds": "datasets",
    "mod": "modules",
    "mdl": "models",
    "isvc": "inferenceservices",
    "isess": "inferencesessions",
    "eval": "evaluations",
    "rep": "reports",
    "proc": "auditprocedures",
    "aud": "audits",
    "acc": "accounts",
}
COLLECTIONS = tuple(SHORT.values())
KindArgument = Annotated[
    str,
    typer.Argument(
        help="evaluation, evaluations or eval; likewise "
        + ", ".join(f"{plural} ({short})" for short, plural in SHORT.items() if short != "eval")
        + "."
    ),
]
WORKFLOWS = frozenset(
    {"models", "inferenceservices", "inferencesessions", "evaluations", "reports", "audits"}
)
WITH_FILES = frozenset({"datasets", "modules", "evaluations", "reports", "audits"})
ENTITIES = frozenset(COLLECTIONS) - {"accounts"}


def collection_name(kind: str) -> str:
    """The collection of a kind in whatever form: Evaluation, evaluations, eval. Raises UsageError."""
    from steelyard.errors import UsageError

    word = kind.lower()
    for plural in (SHORT.get(word, word), SHORT.get(word.removesuffix("s"), word), f"{word}s"):
        if plural in COLLECTIONS:
            return plural
    raise UsageError(f"{kind}: there is no such kind; there are {', '.join(COLLECTIONS)}")


def one_of(plural: str, possible: Set[str], what: str) -> str:
    """The collection, where it is one of those that have `what`. Raises UsageError."""
    from steelyard.errors import UsageError

    if plural not in possible:
        known = ", ".join(each for each in COLLECTIONS if each in possible)
        raise UsageError(f"{plural} have no {what}; these do: {known}")
    return plural


def choose_state_dir(given: Path | None) -> "StateDir":
    """The folder given, else ./.steelyard where there is one, else the user's."""
    from steelyard.local.state import StateDir, default_state_dir

    nearby = Path(".steelyard")
    return StateDir((given or (nearby if nearby.is_dir() else default_state_dir())).resolve())


def command_name() -> str:
    """How a user calls this command: `steelyard` where the shell finds it, else its path."""
    import shutil
    import sys

    called, found = Path(sys.argv[0]), shutil.which("steelyard")
    if called.name != "steelyard" or (found and Path(found).resolve() == called.resolve()):
        return "steelyard"
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)


def connect(endpoint: str | None, token: str | None, state_dir: Path | None = None) -> "Client":
    """A client; the state folder's own address and token where one is given. Raises UsageError."""
    from steelyard.client import Client
    from steelyard.errors import UsageError
    from steelyard.local.state import StateDir, read_ready

    if state_dir is not None:
        ready = read_ready(StateDir(state_dir.resolve()))
        if ready is None or ready.api is None:
            raise UsageError(
                f"--state-dir {state_dir}: no platform runs there; start it with: steelyard up --state-dir {state_dir}"
            )
        endpoint = (
            ready.api if endpoint is None else endpoint
        )  # one that is empty is an error, not an absence
        token = ready.token if token is None else token
    return Client(endpoint=endpoint, token=token)


@dataclass(frozen=True)
class PlatformOptions:
    """How a command finds the platform: what its options say."""

    endpoint: str | None
    token: str | None
    state_dir: Path | None

    def connect(self) -> "Client":
        """Raises UsageError."""
        return connect(self.endpoint, self.token, self.state_dir)


def on_platform(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose last parameter is `platform`, with the options --endpoint, --token and --state-dir for it."""
    own = inspect.signature(command)
    kinds = {"endpoint": EndpointOption, "token": TokenOption, "state_dir": StateOption}
    options = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)
        for name, kind in kinds.items()
    ]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        platform = PlatformOptions(*(given.pop(name) for name in kinds))
        command(**given, platform=platform)

    kept = [each for name, each in own.parameters.items() if name != "platform"]
    called.__signature__ = own.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    hints = {name: kind for name, kind in command.__annotations__.items() if name != "platform"}
    called.__annotations__ = hints | kinds
    return called


def one_id(collection: object, text: str) -> str:
    """The id that a user means: a whole id, the beginning of one, or a name that one entity alone has."""
    from steelyard.errors import UsageError

    if len(text) == 32 and set(text) <= set("0123456789abcdef"):
        return text
    found = [
        each.id
        for each in collection.query()  # type: ignore[attr-defined]
        if getattr(each, "name", None) == text or each.id.startswith(text)
    ]
    if len(found) == 1:
        return str(found[0])
    how = "there is none" if not found else f"{len(found)} match: {', '.join(found[:5])}"
    raise UsageError(f"{text}: should be an id, the beginning of one, or a name; {how}")
