"""The comparison of all that is claimed with all that is there: once at the start, then every minute."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from steelyard.accounts.ledger import Claim, Claims
from steelyard.broker.log import Message
from steelyard.services.orchestrator.cache import ResourceCache
from steelyard.services.orchestrator.scheduler import known_claims
from steelyard.services.orchestrator.wanted import wanted
from steelyard.services.statuses import Status, command_id, status_command
from steelyard.services.waiting import failure


def unsettled(unfinished: Sequence[Claim], cache: ResourceCache) -> list[str]:
    """Those that hold something and do not simply run: their resource is missing, or they have ended."""
    held = (each for each in unfinished if each.admitted_at and not each.released_at)
    return [each.id for each in held if each.status != "Admitted" or not cache.of(each.id)]


async def unwanted(claims: Claims, cache: ResourceCache, now: datetime, keep_seconds: float) -> list[str]:
    """Those whose resource is there and should not be."""
    seen = list(cache.entities())
    known = await known_claims(claims, seen)
    return [id for id in seen if wanted(known.get(id), now, keep_seconds).word == "absent"]


def expired_uploads(unfinished: Sequence[Claim], now: datetime, upload_seconds: float) -> list[Message]:
    """Commands that end uploads which nobody has finalized in time; the same ones until they are obeyed."""
    limit = timedelta(seconds=upload_seconds)
    message = f"the upload was not finalized within {limit}"
    return [
        status_command(
            each.id,
            each.kind,
            Status(failure(each.kind), "Expired", message),
            source="orchestrator",
            time=now,
            command=command_id("expired", each.id),
        )
        for each in unfinished
        if each.status == "WaitingForUpload" and now - each.created >= limit
    ]
