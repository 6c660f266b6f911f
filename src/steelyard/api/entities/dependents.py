"""Who uses an entity: said to whoever deletes it. Deletion goes on all the same; what was made of it stays."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from steelyard.api.entities.loading import Known
from steelyard.api.http.context import Call
from steelyard.schema.dependencies import BASELINE
from steelyard.schema.entities import PLURALS
from steelyard.schema.status import TERMINAL, statuses
from steelyard.types import JsonValue
from steelyard.views.fields import cursor
from steelyard.views.view import Query

_MOST = 100
_PAGE, _READ = 200, 2000
"""Where no filter finds the users, so many of the newest entities are read at most, a page at a time."""
_NAMED = 3


@dataclass(frozen=True)
class _Use:
    """Use of one kind by another: found by a filter, and where that finds too much, by what the JSON says."""

    kind: str
    filters: Callable[[Mapping[str, JsonValue]], Mapping[str, str]]
    names: Callable[[Mapping[str, JsonValue], str], bool] | None = None


def _filtered(kind: str, name: str) -> _Use:
    return _Use(kind, lambda used: {name: used["id"]})


def _has_precondition(user: Mapping[str, JsonValue], id: str) -> bool:
    return any(needed["id"] == id for needed in (user.get("metadata") or {}).get("preconditions") or ())


def _mounts(service: Mapping[str, JsonValue], id: str) -> bool:
    mounts = (service.get("runner") or {}).get("volumeMounts") or ()
    return any(mount["data"]["source"]["id"] == id for mount in mounts if mount.get("data"))


def _has_baseline(audit: Mapping[str, JsonValue], id: str) -> bool:
    return any(note["key"] == BASELINE and note["value"] == id for note in audit.get("annotations") or ())


_MOUNTED = _Use("InferenceService", lambda used: {}, _mounts)
_USERS: Mapping[str, Sequence[_Use]] = {
    "Dataset": (
        _filtered("Evaluation", "dataset"),
        _filtered("Report", "dataset"),
        _Use(
            "AuditProcedure",
            lambda used: {},
            lambda user, id: any(requirement["dataset"] == id for requirement in user["requirements"]),
        ),
        _MOUNTED,
    ),
    "Module": (_Use("Report", lambda used: {}, lambda user, id: id in (user.get("modules") or ())), _MOUNTED),
    "Model": (_filtered("InferenceService", "model"), _MOUNTED),
    "InferenceService": (
        _filtered("InferenceSession", "inferenceService"),
        _filtered("Evaluation", "inferenceService"),
        _filtered("Audit", "inferenceService"),
    ),
    "InferenceSession": (
        _Use(
            "Evaluation",
            lambda used: {"inferenceService": used["inferenceService"]["id"]},
            lambda user, id: user.get("inferenceSessionReference") == id,
        ),
    ),
    "Evaluation": (_filtered("Report", "evaluation"),),
    "Report": (
        _Use("Audit", lambda used: {"inferenceService": used["inferenceService"]}, _has_precondition),
    ),
    "AuditProcedure": (_filtered("Audit", "auditProcedure"),),
    "Audit": (_Use("Audit", lambda used: {}, _has_baseline),),
}
"""By the kind that is used."""


async def warning(call: Call, entity: Known) -> str | None:
    """`is used by 2 evaluations, of which 1 has not ended: 0123…`; of those that the caller may see."""
    users: dict[str, dict[str, Mapping[str, JsonValue]]] = {}
    for use in _USERS.get(entity.kind, ()):
        async for user in _users(call, use, entity.content):
            users.setdefault(use.kind, {})[user["id"]] = user
    parts = [_in_words(kind, list(by_id.values())) for kind, by_id in users.items()]
    return f"{entity.kind} {entity.id} is used by {'; '.join(parts)}" if parts else None


async def _users(
    call: Call, use: _Use, used: Mapping[str, JsonValue]
) -> AsyncIterator[Mapping[str, JsonValue]]:
    """At most `_MOST`, the newest first."""
    alive = [status for status in statuses(use.kind) if status != "Deleted"]
    try:
        filters: dict[str, Sequence[str]] = {name: (value,) for name, value in use.filters(used).items()}
    except (LookupError, TypeError):  # the entity was made by an older version: every user is looked at
        filters = {}
    query = Query(
        use.kind,
        {**filters, "status": alive},
        scope=call.access.scope(PLURALS[use.kind], "query"),  # type: ignore[arg-type]
        order_by="creationTime",
        order="descending",
        limit=_PAGE,
    )
    left = _MOST
    for _ in range(_READ // _PAGE):
        page = [orjson.loads(json) for json in await call.api.entities.query(query)]
        for user in page:
            if left and _names(use, user, used["id"]):
                left -= 1
                yield user
        if not left or len(page) < _PAGE:
            return
        query = replace(query, after=cursor(page[-1], use.kind, query.order_by))


def _names(use: _Use, user: Mapping[str, JsonValue], id: str) -> bool:
    try:
        return use.names is None or use.names(user, id)
    except (LookupError, TypeError, AttributeError):  # made by an older version, of another form
        return False


def _in_words(kind: str, users: Sequence[Mapping[str, str]]) -> str:
    """`1 audit: 0123…`, with the number of those that have not ended."""
    count = f"{_MOST} or more" if len(users) >= _MOST else str(len(users))
    noun = PLURALS[kind] if len(users) > 1 else kind.lower()
    waiting = [user["id"] for user in users if user["status"] not in TERMINAL]
    over = [user["id"] for user in users if user["status"] in TERMINAL]
    if not waiting:
        return f"{count} {noun}: {_ids(over)}"
    have = "has" if len(waiting) == 1 else "have"
    text = f"{count} {noun}, of which {len(waiting)} {have} not ended: {_ids(waiting)}"
    return f"{text} (ended: {_ids(over)})" if over else text


def _ids(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (" …" if len(ids) > _NAMED else "")
