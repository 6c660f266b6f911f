"""`securityContext.ignoreQuotas`: quotas that do not count for a workflow. Only administrators may set it."""

import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from steelyard.accounts.database import Claim
from steelyard.accounts.quotas import Rates, Shortage
from steelyard.broker.quarantine.dead_letters import described
from steelyard.schema.security import QuotaSelector
from steelyard.services.orchestrator.admission import Limits, exempt

_log = logging.getLogger(__name__)


class ExemptingLimits:
    """Limits, but for the quotas that a claim's entity is to ignore."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def shortages(self, claim: Claim, held: Sequence[Claim]) -> Sequence[Shortage]:
        return _sayable(claim, lambda: counting(claim, self._limits.shortages(claim, held)))


class ExemptingRates:
    """Rates, but for those that a claim's entity is to ignore."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    def since(self, now: datetime) -> datetime | None:
        return self._rates.since(now)

    def shortages(self, claim: Claim, admitted: Sequence[Claim], now: datetime) -> Sequence[Shortage]:
        return _sayable(claim, lambda: counting(claim, self._rates.shortages(claim, admitted, now)))


def _sayable(claim: Claim, shortages: Callable[[], Sequence[Shortage]]) -> Sequence[Shortage]:
    """Shortages of a claim. One for which they cannot be determined waits and says so; the others go on without it."""
    try:
        return shortages()
    except Exception as error:  # noqa: BLE001 - pure: whatever it is, it is of this claim's content
        _log.error("%s: what it lacks cannot be determined", claim.id, exc_info=error)
        return [Shortage(claim.id, "quota", f"what it would take cannot be determined: {described(error)}")]


def counting(claim: Claim, found: Sequence[Shortage]) -> Sequence[Shortage]:
    """Those that the claim's entity is not to ignore."""
    if not found or not exempt(claim):
        return found
    selectors = ignored_quotas(claim)
    return [each for each in found if not any(selects(selector, each) for selector in selectors)]


def ignored_quotas(claim: Claim) -> list[QuotaSelector]:
    context = json.loads(claim.json).get("securityContext") or {}
    return [QuotaSelector.parse(each) for each in context.get("ignoreQuotas") or ()]


def selects(selector: QuotaSelector, shortage: Shortage) -> bool:
    pairs = (
        (selector.principal, shortage.principal),
        (selector.resource, shortage.resource),
        (selector.flavor, shortage.flavor),
    )
    return all(wanted in ("*", found) for wanted, found in pairs)
