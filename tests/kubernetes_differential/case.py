"""A case: requests and watches in order, as data, so that they can be sent to any server and kept with its answers.

Texts in a case may hold `{{ns}}` (a namespace of the run's own), `{{group}}` (an API group of its own) and
`{{step:path.to.0.field}}`, a field of the answer to the step of that name.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from steelyard_common.types import Json, JsonValue

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True)
class Request:
    """One request. `name` lets later steps refer to its answer; `compare` names the parts of the body that count."""

    method: str
    path: str
    body: JsonValue | bytes = None
    type: str = "application/json"
    accept: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    token: str | None = None  # instead of the administrator's credentials; empty for none at all
    name: str = ""
    compare: tuple[str, ...] = ()


@dataclass(frozen=True)
class Until:
    """A GET again and again until its fields have these values; the last answer is compared as of a request.

    A field of None is absent. `status` alone waits for a status.
    """

    path: str
    fields: Json = field(default_factory=dict)
    status: int = 200
    name: str = ""
    compare: tuple[str, ...] = ()
    seconds: float = 30.0


@dataclass(frozen=True)
class Repeat:
    """One request again and again until it is answered with a status; the last answer is compared."""

    path: str
    method: str
    body: JsonValue
    status: int
    compare: tuple[str, ...] = ()
    seconds: float = 30.0


@dataclass(frozen=True)
class Watch:
    """A watch that begins here and goes on during the next steps."""

    name: str
    path: str
    accept: str = "application/json"


@dataclass(frozen=True)
class Events:
    """The next `count` events of a watch, or without a count all until the server ends it.

    `last` names an object: all events to the first about it. A case whose steps may take any time needs one of the two.
    """

    watch: str
    count: int = 0
    compare: tuple[str, ...] = ()
    last: str = ""


Step = Request | Until | Repeat | Watch | Events


@dataclass(frozen=True)
class Case:
    """Steps on one server, in a namespace of their own. `managed` compares managed fields, too."""

    name: str
    steps: tuple[Step, ...]
    managed: bool = False
    namespaced: bool = True  # whether a namespace is made for it

    def __init__(self, name: str, *steps: Step, managed: bool = False, namespaced: bool = True) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "managed", managed)
        object.__setattr__(self, "namespaced", namespaced)

    def digest(self) -> str:
        """A digest of all that is sent and compared: a recording belongs to one form of its case."""
        content = orjson.dumps(
            [self.managed, [[type(step).__name__, _content(step)] for step in self.steps]],
            default=lambda value: value.decode("latin-1") if isinstance(value, bytes) else str(value),
            option=orjson.OPT_SORT_KEYS,
        )
        return hashlib.sha256(content).hexdigest()[:16]


def _content(step: Step) -> Json:
    """Fields of a step, without those that are younger than the recordings and not used."""
    return {name: value for name, value in step.__dict__.items() if name != "last" or value}


# ---- short forms


def get(path: str, **more: Any) -> Request:
    return Request("GET", path, **more)


def post(path: str, body: JsonValue | bytes, **more: Any) -> Request:
    return Request("POST", path, body, **more)


def put(path: str, body: JsonValue | bytes, **more: Any) -> Request:
    return Request("PUT", path, body, **more)


def delete(path: str, body: JsonValue = None, **more: Any) -> Request:
    return Request("DELETE", path, body, **more)


def merge(path: str, body: JsonValue, **more: Any) -> Request:
    return Request("PATCH", path, body, type=MERGE, **more)


def json_patch(path: str, *operations: Json, **more: Any) -> Request:
    return Request("PATCH", path, list(operations), type=JSON_PATCH, **more)


def strategic(path: str, body: JsonValue, **more: Any) -> Request:
    return Request("PATCH", path, body, type=STRATEGIC, **more)


def apply(path: str, body: JsonValue, manager: str = "one", *, force: bool = False, **more: Any) -> Request:
    """Server-side apply; JSON is YAML, too."""
    query = f"fieldManager={manager}" + ("&force=true" if force else "")
    path += ("&" if "?" in path else "?") + query
    return Request("PATCH", path, body, type=APPLY, **more)
