"""Decides whether an entity's custom resource should exist. Pure; done again at every reconciliation of an entity."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from steelyard.accounts.database import Claim
from steelyard.services.orchestrator.manifest import KUBE
from steelyard_schema.status import TERMINAL


@dataclass(frozen=True)
class Desired:
    """A `present` resource is made if it is missing, an `absent` one is deleted, and `as it is` changes nothing.

    `until` is the time at which the decision may be another one.
    """

    presence: Literal["present", "absent", "as it is"]
    until: datetime | None = None


def desired_resource(claim: Claim | None, now: datetime, keep_seconds: float) -> Desired:
    """Decide by the entity's newest state. An unknown entity has no resource."""
    if claim is None or claim.kind not in KUBE or claim.status in {"Deleted", "Terminated"}:
        return Desired("absent")
    if claim.status in TERMINAL:
        expiry = (claim.terminal_at or now) + timedelta(seconds=keep_seconds)
        return Desired("absent") if now >= expiry else Desired("as it is", expiry)
    if claim.admitted_at is not None:
        return Desired("present")
    # A leader whose claims were lost may have made the resource of an entity that waits again.
    return Desired("as it is")


def is_over(claim: Claim | None) -> bool:
    """Return whether nothing of an entity's workflow runs or will run, nor holds anything of the quotas."""
    if claim is None:
        return True
    return claim.status in TERMINAL and (claim.admitted_at is None or claim.released_at is not None)
