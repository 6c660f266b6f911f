"""From a record of `workflows.state` to what the orchestrator claims to know of its entity."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import orjson
from pydantic import ValidationError

from steelyard.accounts.database import Claim, Forgotten
from steelyard.broker.log import Record
from steelyard.schema.dependencies import dependencies
from steelyard.schema.entities import AnyEntity, entity_of
from steelyard.schema.status import TERMINAL
from steelyard.services.orchestrator.manifest import KUBE

Allocation = Callable[[AnyEntity], Mapping[str, str]]


def change_of(record: Record, allocation: Allocation) -> tuple[str, Claim | Forgotten | None]:
    """The entity's id and its newest state; None of a tombstone that does not say which command it comes from.

    An entity that is Admitted has been admitted, even where nobody remembers it: the claims can be made anew from
    the log.
    """
    if record.value is None or "forgotten" in record.headers:
        return record.key, Forgotten(position_of(record)) if "offset" in record.headers else None
    try:
        entity = entity_of(record.value)
    except ValidationError:
        content = orjson.loads(record.value)
        if content.get("status") not in TERMINAL:
            raise
        return record.key, _ended(record, content)
    since = entity.lastTransitionTime or entity.creationTime
    return record.key, Claim(
        id=record.key,
        kind=entity.kind,
        account=entity.account,
        status=entity.status,
        json=record.value,
        position=position_of(record),
        created=entity.creationTime,
        reason=entity.reason,
        message=entity.message,
        blocked=frozenset(each.id for each in dependencies(entity))
        if entity.status == "Created"
        else frozenset(),
        quantities=allocation(entity) if entity.kind in KUBE else {},
        admitted_at=since if entity.status == "Admitted" else None,
        terminal_at=since if entity.status in TERMINAL else None,
    )


def _ended(record: Record, content: dict[str, Any]) -> Claim:
    """The end of an entity that an older schema took, and this one does not: what it holds goes all the same."""
    created = datetime.fromisoformat(content["creationTime"])
    return Claim(
        id=record.key,
        kind=content["kind"],
        account=content["account"],
        status=content["status"],
        json=record.value or b"",
        position=position_of(record),
        created=created,
        reason=content.get("reason"),
        message=content.get("message"),
        terminal_at=datetime.fromisoformat(content.get("lastTransitionTime") or content["creationTime"]),
    )


def position_of(record: Record) -> tuple[int, int]:
    """Epoch and offset of the last command that the entity had seen."""
    return int(record.headers["epoch"]), int(record.headers["offset"])
