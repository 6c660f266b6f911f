"""The comparison of all claims with all resources: once at the start, then every minute.

Each function is about one entity. The leader calls it for every one, and a failure for one stops no other.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steelyard.accounts.claims import Claim
from steelyard.broker.log import Message
from steelyard.services.informer.status import make_command, read_status
from steelyard.services.orchestrator.cache import ResourceCache
from steelyard.services.orchestrator.desired import decide_resource
from steelyard.services.status_commands import Status, command_id, status_command
from steelyard_schema.status import failure_status


def is_unsettled(claim: Claim, cache: ResourceCache) -> bool:
    """Return whether a claim holds something although its entity does not run: its resource is missing or has ended."""
    is_held = claim.admitted_at is not None and claim.released_at is None
    return is_held and (claim.status != "Admitted" or not cache.find_own(claim))


def is_unwanted(claim: Claim | None, now: datetime, keep_seconds: float) -> bool:
    """Return whether an entity's resource, which exists, should not."""
    return decide_resource(claim, now, keep_seconds).presence == "absent"


@dataclass(frozen=True)
class UnreportedStatus:
    """A status that a resource shows and its entity has not, with the versions of both, and the command about it."""

    position: tuple[int, int]
    uid: str
    version: str
    command: Message


def find_unreported(claim: Claim, cache: ResourceCache) -> UnreportedStatus | None:
    """Return what the entity's resource shows and the entity does not; None if they agree.

    As a rule the informer's command is on its way. It never arrives if the informer sent it before the entity was
    restored to an earlier state: its own command counts once. So this command's id names the entity's state, too.
    """
    if not (claim.admitted_at and not claim.released_at and claim.status in {"Created", "Admitted"}):
        return None
    for resource in cache.find_own(claim):
        observed, metadata = read_status(resource), resource["metadata"]
        if observed is None or metadata["deletionTimestamp"]:
            continue
        if (observed.status.status, observed.status.reason) != (claim.status, claim.reason):
            uid, version = metadata["uid"], metadata["resourceVersion"]
            id = command_id("informer", uid, version, *(str(number) for number in claim.position))
            return UnreportedStatus(claim.position, uid, version, make_command(resource, observed, id))
    return None


def expiry_command(claim: Claim, now: datetime, upload_seconds: float) -> Message | None:
    """Return the command that ends an upload which was not finalised in time; it is the same until it is applied."""
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
