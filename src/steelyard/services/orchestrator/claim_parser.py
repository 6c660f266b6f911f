"""Parses records of `workflows.state` into claims. It reads and writes no store; `leader.py` does, through `Claims`."""

from collections.abc import Callable, Mapping
from datetime import datetime

import orjson
from pydantic import ValidationError

from steelyard.accounts.claims import Claim, ForgottenClaim
from steelyard.broker.log import Record
from steelyard.services.orchestrator.manifest import KUBE
from steelyard_common.types import Json
from steelyard_schema.dependencies import dependencies, has_workflow
from steelyard_schema.entities import AnyEntity, parse_stored
from steelyard_schema.quota import Quota
from steelyard_schema.status import TERMINAL


def parse_claim(
    record: Record, allocation: Callable[[AnyEntity], Mapping[str, str]]
) -> tuple[str, Claim | ForgottenClaim | None]:
    """Return the entity's id and its new claim; None for a tombstone that does not name its command.

    `allocation` says what quantities an entity takes.
    """
    if record.value is None or "forgotten" in record.headers:
        return record.key, ForgottenClaim(read_position(record)) if "offset" in record.headers else None
    try:
        entity = parse_stored(record.value)
    except ValidationError:
        content = orjson.loads(record.value)
        if content.get("status") not in TERMINAL:
            raise
        return record.key, _make_ended_claim(record, content)
    since = entity.lastTransitionTime or entity.creationTime
    if isinstance(entity, Quota):
        return record.key, _make_ended_claim(record, orjson.loads(record.value))
    blocked = (dependency.id for dependency in dependencies(entity)) if entity.status == "Created" else ()
    return record.key, Claim(
        id=record.key,
        kind=entity.kind,
        account=entity.account,
        status=entity.status,
        json=record.value,
        position=read_position(record),
        created=entity.creationTime,
        reason=entity.reason,
        message=entity.message,
        blocked=frozenset(blocked),
        quantities=allocation(entity) if entity.kind in KUBE and has_workflow(entity) else {},
        # An Admitted entity has been admitted even where no claim remembers it: claims can be made again from the log.
        # A run of a pipeline is Admitted too, and has no resource: it holds nothing.
        admitted_at=since if entity.status == "Admitted" and entity.kind in KUBE else None,
        terminal_at=since if entity.status in TERMINAL else None,
    )


def _make_ended_claim(record: Record, content: Json) -> Claim:
    """Return the claim of what takes nothing: a quota, or an entity that has ended and that this schema refuses."""
    return Claim(
        id=record.key,
        kind=content["kind"],
        account=content["account"],
        status=content["status"],
        json=record.value or b"",
        position=read_position(record),
        created=datetime.fromisoformat(content["creationTime"]),
        reason=content.get("reason"),
        message=content.get("message"),
        terminal_at=datetime.fromisoformat(content.get("lastTransitionTime") or content["creationTime"]),
    )


def read_position(record: Record) -> tuple[int, int]:
    """Return epoch and offset of the last command that the entity has seen."""
    return int(record.headers["epoch"]), int(record.headers["offset"])
