"""Quotas that requests have set: they count in place of those of the settings, resource by resource. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from steelyard.accounts.quota_settings import GLOBAL, LONGEST, UNLIMITED, RateSettings
from steelyard_schema.entities import PLURALS
from steelyard_schema.quantity import amount
from steelyard_schema.quota import Quota
from steelyard_schema.status import CREATIONS_COUNTED

CREATED = ".dyff.io/created"
"""End of the names of resources that are counted at creation, such as evaluations.dyff.io/created."""
_Key = tuple[str, str]
"""Principal and resource."""


@dataclass(frozen=True)
class CreationRate:
    """Limit on the entities of some kinds that are created within a period."""

    rate: RateSettings
    kinds: frozenset[str]
    since: datetime
    """Time at which the limit was set. It does not apply to entities from before."""


@dataclass(frozen=True)
class SetQuotas:
    """Quotas that are in force, by what they limit."""

    limits: Mapping[_Key, Decimal | None] = field(default_factory=dict)
    """Limits on claims that are held at once; None for no limit."""
    rates: Sequence[RateSettings] = ()
    rated: frozenset[_Key] = frozenset()
    """Principals and resources that have a rate, or are freed of one."""
    creations: Sequence[CreationRate] = ()


NO_QUOTAS = SetQuotas()


def find_created_kinds(resource: str) -> frozenset[str]:
    """Return the kinds whose creations a resource counts; none for a resource that is counted at admission."""
    if not resource.endswith(CREATED):
        return frozenset()
    plural = resource.removesuffix(CREATED)
    return frozenset(kind for kind in CREATIONS_COUNTED if plural in ("workflows", PLURALS[kind]))


def set_quotas(quotas: Iterable[Quota]) -> SetQuotas:
    """Return the quotas by what they limit. Those that are Deleted count no more."""
    limits: dict[_Key, Decimal | None] = {}
    rates: list[RateSettings] = []
    rated: set[_Key] = set()
    creations: list[CreationRate] = []
    for quota in quotas:
        key = (quota.principal, quota.resource)
        if quota.status == "Deleted":
            continue
        limit = None if quota.limit == UNLIMITED else amount(quota.limit)
        # A rate over no time at all is a limit on what is held at once.
        if not quota.duration:
            limits[key] = _lower(limit, limits[key]) if key in limits else limit
        elif kinds := find_created_kinds(quota.resource):
            if limit is not None:
                creations.append(CreationRate(make_rate(quota, quota.duration), kinds, _set_at(quota)))
        else:
            rated.add(key)
            rates += [make_rate(quota, quota.duration)] if limit is not None else []
    return SetQuotas(limits, rates, frozenset(rated), creations)


def list_rates(settings: Sequence[RateSettings], quotas: SetQuotas, account: str) -> Iterable[RateSettings]:
    """Return the rates that concern an account: those that were set, and those of the settings for the others."""
    for rate in (*settings, *quotas.rates):
        principal = GLOBAL if rate.principal == GLOBAL else f"accounts/{account}"
        is_replaced = rate in settings and (principal, rate.resource) in quotas.rated
        if rate.concerns(account) and not is_replaced:
            yield rate


def make_rate(quota: Quota, duration: timedelta) -> RateSettings:
    """Return a quota of the flavor Rate as the settings write one."""
    return RateSettings(
        principal=quota.principal,
        resource=quota.resource,
        limit=quota.limit,
        duration=min(duration, LONGEST),
        epoch=quota.epoch,
    )


def _set_at(quota: Quota) -> datetime:
    return (quota.lastTransitionTime or quota.creationTime).astimezone(UTC)


def _lower(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    known = [limit for limit in (one, other) if limit is not None]
    return min(known, default=None)
