"""`securityContext.ignoreQuotas`: quotas that do not count for a workflow. Only administrators may set it."""

import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from steelyard.accounts.claims import Claim
from steelyard.accounts.holdings import Holdings
from steelyard.accounts.quotas import Rates, Shortage
from steelyard.broker.quarantine.dead_letters import describe_error
from steelyard.services.orchestrator.admission import Limits, is_exempt
from steelyard_common.types import mapping, sequence
from steelyard_schema.security import QuotaSelector

_log = logging.getLogger(__name__)


class ExemptingLimits:
    """Limits without the quotas that a claim's entity ignores."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def shortages(self, claim: Claim, held: Holdings) -> Sequence[Shortage]:
        return _isolate(claim, lambda: counting(claim, self._limits.shortages(claim, held)))


class ExemptingRates:
    """Rates without those that a claim's entity ignores."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    def since(self, now: datetime) -> datetime | None:
        return self._rates.since(now)

    def shortages(self, claim: Claim, admitted: Sequence[Claim], now: datetime) -> Sequence[Shortage]:
        return _isolate(claim, lambda: counting(claim, self._rates.shortages(claim, admitted, now)))


def _isolate(claim: Claim, shortages: Callable[[], Sequence[Shortage]]) -> Sequence[Shortage]:
    """Return the shortages of a claim. A claim for which they cannot be determined waits and says so, alone."""
    try:
        return shortages()
    except Exception as error:  # noqa: BLE001 - the functions are pure: the claim's content is the only cause
        _log.error("%s: what it lacks cannot be determined", claim.id, exc_info=error)
        return [
            Shortage(claim.id, "quota", f"what it would take cannot be determined: {describe_error(error)}")
        ]


def counting(claim: Claim, shortages: Sequence[Shortage]) -> Sequence[Shortage]:
    """Return the shortages that count for the claim: those of quotas that its entity does not ignore."""
    if not shortages or not is_exempt(claim):
        return shortages
    selectors = find_ignored(claim)
    return [
        shortage for shortage in shortages if not any(selects(selector, shortage) for selector in selectors)
    ]


def find_ignored(claim: Claim) -> list[QuotaSelector]:
    """Return the selectors of quotas that the claim's entity ignores."""
    context = mapping(json.loads(claim.json), "securityContext")
    return [QuotaSelector.parse(selector) for selector in sequence(context, "ignoreQuotas")]


def selects(selector: QuotaSelector, shortage: Shortage) -> bool:
    """Return whether the selector names the quota of a shortage."""
    pairs = (
        (selector.principal, shortage.principal),
        (selector.resource, shortage.resource),
        (selector.flavor, shortage.flavor),
    )
    return all(pattern in ("*", value) for pattern, value in pairs)
