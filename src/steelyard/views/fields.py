"""Queries that each kind allows: its filters, the fields of an entity's JSON that they read, and its orders.

Pure. Both forms of the view, the parser of queries and the API's overlay of waiting commands use it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import orjson

from steelyard.views.view import BadChange, BadQuery, Change

Entity = Mapping[str, object]
Path = tuple[str, ...]

INPUTS = "inputs"
"""Parameter of analyses: ids of entities; one of them is among the inputs."""
_INPUT = "inputs:"
"""Prefix of what stands for an input among the labels of an analysis; no label's key has a colon."""
LABEL = "labels."
"""Prefix of a label's filter; the label's key follows."""

BASE: Mapping[str, Path] = {name: (name,) for name in ("id", "account", "status", "reason")}

_NAME: Mapping[str, Path] = {"name": ("name",)}

_SERVICE: Mapping[str, Path] = {
    "inferenceService": ("inferenceService", "id"),
    "inferenceServiceName": ("inferenceService", "name"),
    "model": ("inferenceService", "model", "id"),
    "modelName": ("inferenceService", "model", "name"),
}

_ANALYSIS: Mapping[str, Path] = {
    "method": ("method", "id"),
    "methodName": ("method", "name"),
    **{name: ("scope", name) for name in ("dataset", "evaluation", "inferenceService", "model")},
}

# Sessions and audits are documented with a `name` that they do not have: it is accepted and finds none of them.
OWN: Mapping[str, Mapping[str, Path]] = {
    "Dataset": _NAME,
    "Module": _NAME,
    "Model": _NAME,
    "AuditProcedure": _NAME,
    "InferenceService": {**_NAME, "model": ("model", "id"), "modelName": ("model", "name")},
    "InferenceSession": {**_NAME, **_SERVICE},
    "Evaluation": {
        "dataset": ("dataset",),
        **{name: ("inferenceSession", *path) for name, path in _SERVICE.items()},
    },
    "Report": {
        "report": ("rubric",),  # the field's name in earlier schemas
        "rubric": ("rubric",),
        "dataset": ("dataset",),
        "evaluation": ("evaluation",),
        "inferenceService": ("inferenceService",),
        "model": ("model",),
    },
    "Audit": {**_NAME, "auditProcedure": ("auditProcedure",), "inferenceService": ("inferenceService",)},
    "Method": {**_NAME, "outputKind": ("output", "kind")},
    "Measurement": _ANALYSIS,
    "SafetyCase": _ANALYSIS,
    "Family": {},
    "UseCase": {},
    "Hazard": {},
    "Pipeline": _NAME,
    "PipelineRun": {"pipeline": ("pipeline",)},
    "Challenge": {},
    "Team": {"challenge": ("challenge",)},
    "Submission": {name: (name,) for name in ("challenge", "task", "team", "pipelineRun")},
    "OCIArtifact": _NAME,
    "DataSource": _NAME,
    "Quota": {name: (name,) for name in ("principal", "resource", "flavor")},
}

WITH_INPUTS = frozenset({"Measurement", "SafetyCase"})
"""Kinds whose queries have the parameter `inputs`."""

FILTERS: Mapping[str, Mapping[str, Path]] = {kind: {**BASE, **own} for kind, own in OWN.items()}

CREATED, CHANGED = "creationTime", "lastTransitionTime"
TIMES = frozenset({CREATED, CHANGED})

ORDERS: Mapping[str, Mapping[str, Path]] = {
    kind: {**known, CREATED: (CREATED,), CHANGED: (CHANGED,)} for kind, known in FILTERS.items()
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def read(change: Change) -> tuple[str, Entity] | None:
    """A change's kind and entity; None where it is forgotten. Raises BadChange for content without a place in a
    view."""
    if change.json is None:
        return None
    try:
        entity = orjson.loads(change.json)
        kind = entity["kind"]
    except (ValueError, LookupError, TypeError) as error:
        raise BadChange(f"{change.id}: not an entity's JSON: {error!r}") from error
    if kind not in FILTERS:
        raise BadChange(f"{change.id}: its kind {kind!r} is not one of {', '.join(sorted(FILTERS))}")
    return kind, entity


def filters(kind: str) -> Mapping[str, Path]:
    if kind not in FILTERS:
        raise BadQuery("kind", f"{kind!r} is not one of {', '.join(sorted(FILTERS))}")
    return FILTERS[kind]


def orders(kind: str) -> Mapping[str, Path]:
    """Return the fields by which entities of a kind may be ordered: filters and times."""
    filters(kind)
    return ORDERS[kind]


def value(entity: Entity, path: Path) -> str | None:
    """The text that lies there; anything else counts as absent."""
    value: object = entity
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    # A filter's column holds texts: a number or a list there is another schema's, and must not stop the sink.
    return value if isinstance(value, str) else None


def labels(entity: Entity) -> Mapping[str, str]:
    """Return the labels by which the entity is found: its own, and one for each input of an analysis."""
    labels_ = entity.get("labels")
    pairs = labels_.items() if isinstance(labels_, dict) else ()
    inputs = entity.get("inputs") if entity.get("kind") in WITH_INPUTS else None
    named = (
        [item.get("entity") for item in inputs if isinstance(item, dict)] if isinstance(inputs, list) else []
    )
    own = {key: text for key, text in pairs if isinstance(text, str)}
    # The labels' index takes many values of one entity, which a column for a filter does not.
    return own | {f"{_INPUT}{id}": "" for id in named if isinstance(id, str)}


def has_input(id: str) -> Mapping[str, Sequence[str]]:
    """Return the condition that an analysis has an input."""
    return {f"{LABEL}{_INPUT}{id}": ("",)}


def microseconds(time: str) -> int:
    """A time's sort key: whole microseconds since 1970, because databases' own dates cut them. Raises ValueError.

    The texts themselves cannot be compared: a whole second is written without a fraction.
    """
    then = datetime.fromisoformat(time)
    # In whole numbers: a float of seconds since 1970 loses microseconds.
    return ((then if then.tzinfo else then.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def make_key(name: str, text: str | None) -> str | int | None:
    """The sort key of a field's text. Raises ValueError for a text that is not a time."""
    return microseconds(text) if text is not None and name in TIMES else text


def sort_key(entity: Entity, kind: str, name: str) -> str | int | None:
    """Return the value that entities are sorted by; None for an entity that does not have the field."""
    try:
        return make_key(name, value(entity, orders(kind)[name]))
    except (ValueError, OverflowError):
        return None  # one broken time must not stop the sink


def cursor(entity: Entity, kind: str, order_by: str | None) -> tuple[str | None, str]:
    """Return the value of `after` for the entities that follow this one."""
    name = order_by or CREATED
    # A time that cannot be read sorts as absent, so the cursor has to say the same.
    known = sort_key(entity, kind, name) is not None
    return value(entity, orders(kind)[name]) if known else None, value(entity, ("id",)) or ""
