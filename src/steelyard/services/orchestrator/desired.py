"""Whether an entity's custom resource should be there. Pure; asked at every look at an entity."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from steelyard.accounts.database import Claim
from steelyard.schema.status import TERMINAL
from steelyard.services.orchestrator.manifest import KUBE


@dataclass(frozen=True)
class Wanted:
    """`present` is made where it is missing, `absent` is deleted, `as it is` is neither; `until` is the next look."""

    word: Literal["present", "absent", "as it is"]
    until: datetime | None = None


def wanted(claim: Claim | None, now: datetime, keep_seconds: float) -> Wanted:
    """What the entity's newest state asks for; an entity that nobody knows wants no resource."""
    if claim is None or claim.kind not in KUBE or claim.status in {"Deleted", "Terminated"}:
        return Wanted("absent")
    if claim.status in TERMINAL:
        over = (claim.terminal_at or now) + timedelta(seconds=keep_seconds)
        return Wanted("absent") if now >= over else Wanted("as it is", over)
    if claim.admitted_at is not None:
        return Wanted("present")
    return Wanted("as it is")  # it may be there: made by a leader whose claims were lost
