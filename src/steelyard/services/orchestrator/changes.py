"""From a record of `workflows.state` to what the orchestrator claims to know of its entity."""

from collections.abc import Callable, Mapping

from steelyard.accounts.ledger import Claim, Forgotten
from steelyard.broker.log import Record
from steelyard.schema.dependencies import dependencies
from steelyard.schema.entities import AnyEntity, entity_of
from steelyard.schema.status import TERMINAL
from steelyard.services.resources import KUBE

Allocation = Callable[[AnyEntity], Mapping[str, str]]


def change_of(record: Record, allocation: Allocation) -> tuple[str, Claim | Forgotten | None]:
    """The entity's id and its newest state; None of a tombstone that does not say which command it comes from.

    An entity that is Admitted has been admitted, even where nobody remembers it: the claims can be made anew from
    the log.
    """
    if record.value is None or "forgotten" in record.headers:
        return record.key, Forgotten(position_of(record)) if "offset" in record.headers else None
    entity = entity_of(record.value)
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


def position_of(record: Record) -> tuple[int, int]:
    """Epoch and offset of the last command that the entity had seen."""
    return int(record.headers["epoch"]), int(record.headers["offset"])
