"""Decides whether an entity's custom resource should exist. Pure; done again at every reconciliation of an entity."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from steelyard.accounts.claims import Claim
from steelyard.services.orchestrator.manifest import KUBE
from steelyard_schema.status import TERMINAL


@dataclass(frozen=True)
class DesiredResource:
    """A `present` resource is made if it is missing, an `absent` one is deleted, and `as it is` changes nothing.

    `until` is the time at which the decision may be another one.
    """

    presence: Literal["present", "absent", "as it is"]
    until: datetime | None = None


def decide_resource(claim: Claim | None, now: datetime, keep_seconds: float) -> DesiredResource:
    """Decide by the entity's newest state. An unknown entity has no resource."""
    if claim is None or claim.kind not in KUBE or claim.status in {"Deleted", "Terminated"}:
        return DesiredResource("absent")
    if claim.status in TERMINAL:
        expiry = (claim.terminal_at or now) + timedelta(seconds=keep_seconds)
        return DesiredResource("absent") if now >= expiry else DesiredResource("as it is", expiry)
    if claim.admitted_at is not None:
        return DesiredResource("present")
    # A leader whose claims were lost may have made the resource of an entity that waits again.
    return DesiredResource("as it is")


def is_over(claim: Claim | None) -> bool:
    """Return whether nothing of an entity's workflow runs or will run, nor holds anything of the quotas."""
    if claim is None:
        return True
    return claim.status in TERMINAL and (claim.admitted_at is None or claim.released_at is not None)
