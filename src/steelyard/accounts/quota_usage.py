"""Usage of quotas that requests have set, counted as the orchestrator counts before it admits. Pure.

The API asks when it shows quotas. Nothing is stored: an amount that is written down is wrong with the next admission.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from steelyard.accounts.claims import Claim
from steelyard.accounts.creations import Creations
from steelyard.accounts.quota_settings import GLOBAL
from steelyard.accounts.quotas import count_created, list_admitted, usage
from steelyard.accounts.set_quotas import find_created_kinds, make_rate
from steelyard_schema.quota import Quota


class QuotaUsage:
    """Usage of quotas at one moment."""

    def __init__(self, admissions: Iterable[Claim], created: Creations, now: datetime) -> None:
        """`admissions` are the claims that are held and those that were admitted since `admissions_since`."""
        self._claims: defaultdict[tuple[str, str], list[Claim]] = defaultdict(list)
        for claim in admissions:
            for resource in claim.quantities:
                for principal in (GLOBAL, f"accounts/{claim.account}"):
                    self._claims[principal, resource].append(claim)
        self._created = created
        self._now = now

    def amount(self, quota: Quota) -> Decimal:
        """Return the amount that counts for a quota now."""
        claims = self._claims.get((quota.principal, quota.resource), [])
        if not quota.duration:
            return usage((claim for claim in claims if claim.released_at is None), quota.resource)
        rate = make_rate(quota, quota.duration)
        if kinds := find_created_kinds(quota.resource):
            return count_created(rate, kinds, self._created, quota.principal, self._now)
        return usage(list_admitted(rate, claims, self._now), quota.resource)


def admissions_since(quotas: Sequence[Quota], now: datetime) -> datetime | None:
    """Return the time from which admissions count for a quota; None if only those count that are held."""
    return min(
        (
            make_rate(quota, quota.duration).start(now)
            for quota in quotas
            if quota.duration and not find_created_kinds(quota.resource)
        ),
        default=None,
    )


def creations_since(quotas: Sequence[Quota], now: datetime) -> tuple[frozenset[str], datetime] | None:
    """Return the kinds whose creations count for a quota, and the time from which they do; None if none count."""
    counted = [quota for quota in quotas if quota.duration and find_created_kinds(quota.resource)]
    if not counted:
        return None
    kinds = frozenset().union(*(find_created_kinds(quota.resource) for quota in counted))
    return kinds, min(make_rate(quota, quota.duration).start(now) for quota in counted if quota.duration)
