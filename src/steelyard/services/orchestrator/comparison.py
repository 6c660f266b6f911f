"""The comparison of all that is claimed with all that is there: once at the start, then every minute.

Each function is about one entity: the leader asks it of every one, and what it cannot say of one stops no other.
"""

from datetime import datetime, timedelta

from steelyard.accounts.ledger import Claim
from steelyard.broker.log import Message
from steelyard.services.orchestrator.cache import ResourceCache
from steelyard.services.orchestrator.wanted import wanted
from steelyard.services.statuses import Status, command_id, status_command
from steelyard.services.waiting import failure


def is_unsettled(claim: Claim, cache: ResourceCache) -> bool:
    """Whether it holds something and does not simply run: its resource is missing, or it has ended."""
    held = claim.admitted_at is not None and claim.released_at is None
    return held and (claim.status != "Admitted" or not cache.of(claim.id))


def is_unwanted(claim: Claim | None, now: datetime, keep_seconds: float) -> bool:
    """Whether an entity's resource, which is there, should not be."""
    return wanted(claim, now, keep_seconds).word == "absent"


def expired_upload(claim: Claim, now: datetime, upload_seconds: float) -> Message | None:
    """The command that ends an upload which nobody has finalized in time; the same one until it is obeyed."""
    limit = timedelta(seconds=upload_seconds)
    if claim.status != "WaitingForUpload" or now - claim.created < limit:
        return None
    return status_command(
        claim.id,
        claim.kind,
        Status(failure(claim.kind), "Expired", f"the upload was not finalized within {limit}"),
        source="orchestrator",
        time=now,
        command=command_id("expired", claim.id),
    )
