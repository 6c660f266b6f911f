"""Who uses an entity: told to whoever deletes it. Deletion goes on all the same; what was made of it stays."""

from collections.abc import Mapping, Sequence

import orjson

from steelyard.api.call import Call
from steelyard.api.existing import Known
from steelyard.schema.entities import PLURALS
from steelyard.schema.status import TERMINAL, statuses
from steelyard.views.view import Query

_USERS: Mapping[str, Sequence[tuple[str, str]]] = {
    "Dataset": (("Evaluation", "dataset"),),
    "Model": (("InferenceService", "model"),),
    "InferenceService": (
        ("InferenceSession", "inferenceService"),
        ("Evaluation", "inferenceService"),
        ("Audit", "inferenceService"),
    ),
    "Evaluation": (("Report", "evaluation"),),
    "AuditProcedure": (("Audit", "auditProcedure"),),
}
"""By kind: kinds that name it, and the filter that finds them."""
_MOST = 100


async def warning(call: Call, entity: Known) -> str | None:
    """`is used by 2 evaluations, of which 1 is not over: 0123…`; of those that the caller may see."""
    found = [await _users(call, kind, name, entity.id) for kind, name in _USERS.get(entity.kind, ())]
    told = [_told(*each) for each in found if each[1]]
    return f"{entity.kind} {entity.id} is used by {'; '.join(told)}" if told else None


async def _users(call: Call, kind: str, name: str, id: str) -> tuple[str, list[dict[str, str]]]:
    alive = [each for each in statuses(kind) if each != "Deleted"]
    scope = call.access.scope(PLURALS[kind], "query")  # type: ignore[arg-type]
    query = Query(kind, {name: (id,), "status": alive}, scope=scope, limit=_MOST)
    return kind, [orjson.loads(each) for each in await call.api.entities.query(query)]


def _told(kind: str, users: Sequence[Mapping[str, str]]) -> str:
    count = f"{_MOST} or more" if len(users) == _MOST else str(len(users))
    noun = PLURALS[kind] if len(users) > 1 else kind.lower()
    waiting = [each["id"] for each in users if each["status"] not in TERMINAL]
    if not waiting:
        return f"{count} {noun}"
    return f"{count} {noun}, of which {len(waiting)} not over: {', '.join(waiting[:3])}" + (
        " …" if len(waiting) > 3 else ""
    )
