"""The comparison of all that is claimed with all that is there: once at the start, then every minute.

Each function is about one entity: the leader asks it of every one, and what it cannot say of one stops no other.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steelyard.accounts.database import Claim
from steelyard.broker.log import Message
from steelyard.schema.status import failure_status
from steelyard.services.informer.run import command_of, status_of
from steelyard.services.orchestrator.cache import ResourceCache
from steelyard.services.orchestrator.desired import wanted
from steelyard.services.status_commands import Status, command_id, status_command


def is_unsettled(claim: Claim, cache: ResourceCache) -> bool:
    """Whether a claim holds something and does not simply run: its resource is missing, or it has ended."""
    held = claim.admitted_at is not None and claim.released_at is None
    return held and (claim.status != "Admitted" or not cache.of(claim.id))


def is_unwanted(claim: Claim | None, now: datetime, keep_seconds: float) -> bool:
    """Whether an entity's resource, which is there, should not be."""
    return wanted(claim, now, keep_seconds).word == "absent"


@dataclass(frozen=True)
class Level:
    """A resource that says something else than its entity, and which state of both that is."""

    position: tuple[int, int]
    uid: str
    version: str
    said: Message


def unheard(claim: Claim, cache: ResourceCache) -> Level | None:
    """What the entity's resource says, and the entity does not: on its way as a rule, in vain where the informer had
    told it before the entity was restored to an earlier state.

    The command's id names the entity's state, since the informer's own command counts once.
    """
    if not (claim.admitted_at and not claim.released_at and claim.status in {"Created", "Admitted"}):
        return None
    for resource in cache.of(claim.id):
        observed, metadata = status_of(resource), resource["metadata"]
        if observed is None or metadata["deletionTimestamp"]:
            continue
        if (observed.said.status, observed.said.reason) != (claim.status, claim.reason):
            uid, version = metadata["uid"], metadata["resourceVersion"]
            id = command_id("informer", uid, version, *(str(number) for number in claim.position))
            return Level(claim.position, uid, version, command_of(resource, observed, id))
    return None


def expired_upload(claim: Claim, now: datetime, upload_seconds: float) -> Message | None:
    """The command that ends an upload which nobody has finalized in time; the same one until it is obeyed."""
    limit = timedelta(seconds=upload_seconds)
    if claim.status != "WaitingForUpload" or now - claim.created < limit:
        return None
    return status_command(
        claim.id,
        claim.kind,
        Status(failure_status(claim.kind), "Expired", f"the upload was not finalized within {limit}"),
        source="orchestrator",
        time=now,
        command=command_id("expired", claim.id),
    )
