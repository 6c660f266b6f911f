"""The options by which commands find the platform, and the names of kinds as users write them."""

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import ArgumentInfo

if TYPE_CHECKING:
    from steelyard.client import Client
    from steelyard.local.state import StateDir

OutputOption = Annotated[
    str, typer.Option("--output", "-o", help="Form of the output: table, json, yaml or name.")
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="State folder. Default: ./.steelyard where it exists, else $XDG_STATE_HOME/steelyard or "
        "~/.local/state/steelyard.",
    ),
]

SHORT = {
    "ds": "datasets",
    "dsrc": "datasources",
    "mod": "modules",
    "art": "artifacts",
    "mdl": "models",
    "isvc": "inferenceservices",
    "isess": "inferencesessions",
    "eval": "evaluations",
    "rep": "reports",
    "proc": "auditprocedures",
    "aud": "audits",
    "mth": "methods",
    "meas": "measurements",
    "case": "safetycases",
    "fam": "families",
    "use": "usecases",
    "haz": "hazards",
    "pipe": "pipelines",
    "run": "pipelineruns",
    "chal": "challenges",
    "team": "teams",
    "sub": "submissions",
    "acc": "accounts",
}
COLLECTIONS = tuple(SHORT.values())


def kind_argument(possible: Set[str] = frozenset(COLLECTIONS)) -> ArgumentInfo:
    """Return the argument for a kind whose collection is in `possible`; its help names these."""
    kinds = ", ".join(f"{plural} ({short})" for short, plural in SHORT.items() if plural in possible)
    argument: ArgumentInfo = typer.Argument(
        help=f"Kind: {kinds}; also in the singular, such as {min(possible)[:-1]}."
    )
    return argument


KindArgument = Annotated[str, kind_argument()]
WORKFLOWS = frozenset(
    {
        *("datasources", "datasets", "models", "inferenceservices", "inferencesessions"),
        *("evaluations", "reports", "audits", "measurements", "safetycases"),
    }
)
TERMINATED = WORKFLOWS | {"pipelineruns", "submissions"}
"""Collections whose entities can be ended: a run ends the workflows that it has created."""
WITH_FILES = frozenset(
    {"datasets", "datasources", "modules", "evaluations", "reports", "audits", "measurements", "safetycases"}
)
ENTITIES = frozenset(COLLECTIONS) - {"accounts"}
PUBLISHED = ENTITIES - {
    *("auditprocedures", "datasources", "inferencesessions", "pipelineruns", "submissions", "teams")
}
"""Collections whose entities can be public. A test compares them with the API's."""
DELETED = "Deleted"
"""Status of a deleted entity, which can be restored for some days."""
AWAITED = ENTITIES - {"teams"}
"""Collections whose entities have a status that says when they have ended. A team waits for its organiser."""


def collection_name(kind: str, possible: Set[str] = frozenset(COLLECTIONS)) -> str:
    """Return the collection of a kind in any of its forms: Evaluation, evaluations, eval.

    Raises UsageError for an unknown kind, with those that are possible.
    """
    from steelyard_common.errors import UsageError

    word = kind.lower()
    for plural in (
        SHORT.get(word, word),
        SHORT.get(word.removesuffix("s"), word),
        f"{word}s",
        f"{word[:-1]}ies",
    ):
        if plural in COLLECTIONS:
            return plural
    known = ", ".join(collection for collection in COLLECTIONS if collection in possible)
    raise UsageError(f"{kind}: there is no such kind; there are {known}")


def find_supporting(plural: str, possible: Set[str], what: str) -> str:
    """Return the collection where it has `what`, which those in `possible` have. Raises UsageError."""
    from steelyard_common.errors import UsageError

    if plural not in possible:
        known = ", ".join(collection for collection in COLLECTIONS if collection in possible)
        raise UsageError(f"{plural} have no {what}; these do: {known}")
    return plural


def choose_state_dir(folder: Path | None) -> "StateDir":
    """Return the folder given, else ./.steelyard where it exists, else the user's."""
    from steelyard.local.state import StateDir, default_state_dir

    nearby = Path(".steelyard")
    return StateDir((folder or (nearby if nearby.is_dir() else default_state_dir())).resolve())


def command_name() -> str:
    """Return what a user types for this command: `steelyard` where the shell finds it, else its path."""
    import shutil
    import sys

    called, on_path = Path(sys.argv[0]), shutil.which("steelyard")
    # Started as `python -m` or by a test runner, argv[0] is no command that a user could type.
    if called.name != "steelyard" or (on_path and Path(on_path).resolve() == called.resolve()):
        return "steelyard"
    return short_path(called)


def short_path(path: Path) -> str:
    """Return the path relative to the current folder where it lies in it: easier to read and to copy."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def connect(endpoint: str | None, token: str | None, state_dir: Path | None = None) -> "Client":
    """Return a client, with the address and token of the state folder where one is given. Raises UsageError."""
    from steelyard.client import Client
    from steelyard.local.state import StateDir, read_ready
    from steelyard_common.errors import UsageError

    if state_dir is not None:
        ready = read_ready(StateDir(state_dir.resolve()))
        if ready is None or ready.api is None:
            raise UsageError(
                f"--state-dir {state_dir}: no platform runs there; start it with: steelyard up --state-dir {state_dir}"
            )
        # An empty address is an error for the client to report, not a missing one.
        endpoint = ready.api if endpoint is None else endpoint
        token = ready.token if token is None else token
    return Client(endpoint=endpoint, token=token)


@dataclass(frozen=True)
class PlatformOptions:
    """The options by which a command finds the platform."""

    endpoint: Annotated[
        str | None,
        typer.Option(
            help="Address of the API, with /v0. Default: STEELYARD_API_ENDPOINT, DYFF_API_ENDPOINT, or the platform "
            "that runs on this machine.",
        ),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(
            help="API token. Default: STEELYARD_API_TOKEN, DYFF_API_TOKEN, or that of the platform that runs on this "
            "machine.",
        ),
    ] = None
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="State folder of a platform that `steelyard up` started; its address and token are used first."
        ),
    ] = None

    def connect(self) -> "Client":
        """Return a client for the platform. Raises UsageError."""
        return connect(self.endpoint, self.token, self.state_dir)


def one_id(client: "Client", plural: str, text: str) -> str:
    """Return the id that a user means: a whole id, the beginning of one, or a name that only one entity has."""
    from steelyard.cli.output import display_name
    from steelyard_common.errors import UsageError

    # A whole id is not looked up: the entity may be one that no query lists, such as a forgotten one.
    if len(text) == 32 and set(text) <= set("0123456789abcdef"):
        return text
    matches = [
        entity
        for entity in getattr(client, plural).query()
        if display_name(entity.dump()) == text or entity.id.startswith(text)
    ]
    # A name goes on to mean what is there, also after something with the same name was deleted.
    living = [entity for entity in matches if entity.status != DELETED]
    ids = [entity.id for entity in living or matches]
    if len(ids) == 1:
        return str(ids[0])
    if ids:
        raise UsageError(f"{text}: {len(ids)} match: {', '.join(ids[:5])}; give more of the id")
    raise UsageError(
        f"{text}: no id begins with it, and nothing has it as its name; `steelyard get {plural}` lists what there is"
    )


def make_filters(labels: list[str], where: list[str]) -> dict[str, object]:
    """Return the filters of a query that options of a command name. Raises UsageError."""
    import json

    from steelyard_common.errors import UsageError

    filters: dict[str, object] = {}
    several: dict[str, list[str]] = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--where {text}: should be field=value")
        values = value.split(",")
        if len(values) > 1:
            several[name] = values
        else:
            filters[name] = value
    if several:
        filters["query"] = json.dumps(several)
    for text in labels:
        if not text.partition("=")[1]:
            raise UsageError(f"--label {text}: should be key=value")
    if labels:
        filters["labels"] = dict(parse_label(text) for text in labels)
    return filters


def parse_label(text: str) -> tuple[str, str | None]:
    from steelyard_common.errors import UsageError

    key, equals, value = text.partition("=")
    if not equals and text.endswith("-"):
        return text[:-1], None
    if not equals or not key:
        raise UsageError(f"{text}: should be key=value, or key- to remove the label")
    return key, value
