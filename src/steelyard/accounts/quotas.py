"""Quotas: how much may be admitted, of everything and per account. The orchestrator asks before it admits.

Pure: usage is a sum over claims, those held for what may be held at once, those admitted within a window for rates.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from steelyard.accounts.claims import Claim
from steelyard.accounts.creations import Creations
from steelyard.accounts.holdings import Holdings, amount_taken
from steelyard.accounts.quota_settings import ADMITTED, GLOBAL, QuotaSettings, RateSettings, make_limits
from steelyard.accounts.set_quotas import CREATED, NO_QUOTAS, CreationRate, SetQuotas, list_rates
from steelyard_schema.entities import AnyEntity
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_session import InferenceSession, InferenceSessionSpec
from steelyard_schema.quantity import amount, quantity, total

__all__ = [
    "ADMITTED",
    "GLOBAL",
    "TOO_MANY",
    "QuotaSettings",
    "Quotas",
    "Rates",
    "Shortage",
    "resource_allocation",
    "usage",
]

_CPU_MEMORY = {
    "Audit": ("2", "2Gi"),
    "DataSource": ("1", "1Gi"),
    "Dataset": ("1", "1Gi"),
    "Evaluation": ("2", "2Gi"),
    "InferenceSession": ("1", "1Gi"),
    "Measurement": ("2", "2Gi"),
    "Model": ("1", "1Gi"),
    "Report": ("2", "2Gi"),
    "SafetyCase": ("1", "1Gi"),
}
"""Processors and memory that a workflow of a kind counts as."""
_LimitOf = Callable[[str, str], Decimal | None]
_GPUS, _INSTANCES = "nvidia.com/gpu", "nvidia.com/mig-"
SHOWN = 3  # holders that a message names
LATE = timedelta(minutes=1)
"""Time by which states of different partitions may come in another order than their entities were created."""
TOO_MANY = "RateLimitExceeded"
"""Reason of an entity that was created beyond a rate of creations."""
_GPU = "nvidia.com/gpu-"  # before the name of a model


@dataclass(frozen=True)
class Shortage:
    """One quota that has no room: whose it is, of what, and the sentence for those who wait."""

    principal: str
    resource: str
    message: str
    flavor: str = "Total"


class Quotas:
    """Limits on claims that are held at the same time."""

    def __init__(self, settings: QuotaSettings, quotas: SetQuotas = NO_QUOTAS) -> None:
        self._set = quotas.limits
        self._everything = make_limits(settings.everything)
        self._each = make_limits(settings.account)
        self._single = {name: make_limits(given) for name, given in settings.accounts.items()}

    def shortages(self, claim: Claim, held: Holdings) -> Sequence[Shortage]:
        """Return the quotas without room for the claim in addition to those held, the account's own first."""
        return [
            *_short(claim, held, self._limit_of_account, f"accounts/{claim.account}"),
            *_short(claim, held, self._limit_of_all, GLOBAL),
        ]

    def _limit_of_all(self, account: str, resource: str) -> Decimal | None:
        key = (GLOBAL, resource)
        return self._set[key] if key in self._set else self._everything.find_limit(resource)

    def _limit_of_account(self, account: str, resource: str) -> Decimal | None:
        if (key := (f"accounts/{account}", resource)) in self._set:
            return self._set[key]
        single = self._single.get(account)
        if single is not None and single.has(resource):
            return single.find_limit(resource)
        return self._each.find_limit(resource)


class Rates:
    """Limits on admissions within a period, released or not."""

    def __init__(self, rates: Sequence[RateSettings] = (), quotas: SetQuotas = NO_QUOTAS) -> None:
        self._rates = rates
        self._set = quotas

    def since(self, now: datetime) -> datetime | None:
        """Return the time from which admissions count; None where there are no rates."""
        return min((rate.start(now) for rate in (*self._rates, *self._set.rates)), default=None)

    def shortages(self, claim: Claim, admitted: Sequence[Claim], now: datetime) -> Sequence[Shortage]:
        """The rates that the claim would go over, after those that were admitted."""
        return [
            short
            for rate in list_rates(self._rates, self._set, claim.account)
            if rate.resource in claim.quantities
            for short in _over(claim, admitted, rate, now)
        ]


class CreationRates:
    """Limits on the entities that are created within a period, whatever became of them."""

    def __init__(self, quotas: SetQuotas = NO_QUOTAS) -> None:
        self._rates = quotas.creations

    def window(self, claim: Claim) -> tuple[frozenset[str], datetime] | None:
        """Return the kinds that count together with the claim, and since when they do; None if nothing counts."""
        rates = self._concerning(claim)
        if not rates:
            return None
        start = min(rate.rate.start(claim.created) for rate in rates)
        return frozenset().union(*(rate.kinds for rate in rates)), start

    def shortages(self, claim: Claim, created: Creations) -> Sequence[Shortage]:
        """Return the rates that the claim exceeds together with those that were created and not refused."""
        return [short for rate in self._concerning(claim) for short in _too_many(claim, created, rate)]

    def _concerning(self, claim: Claim) -> list[CreationRate]:
        return [
            rate
            for rate in self._rates
            if claim.kind in rate.kinds and rate.rate.concerns(claim.account) and claim.created >= rate.since
        ]


def _too_many(claim: Claim, created: Creations, creation: CreationRate) -> Iterator[Shortage]:
    rate = creation.rate
    principal = GLOBAL if rate.principal == GLOBAL else f"accounts/{claim.account}"
    used = count_created(rate, creation.kinds, created, principal, claim.created, besides=claim.id)
    within = f" within {rate.duration}"
    if message := _exceed_sentence(
        Decimal(1), used, rate.principal, rate.resource, amount(rate.limit), within
    ):
        yield Shortage(rate.principal, rate.resource, message, "Rate")


NO_CREATION_RATES = CreationRates()


def _short(claim: Claim, held: Holdings, limit_of: _LimitOf, principal: str) -> Iterator[Shortage]:
    for resource, text in claim.quantities.items():
        limit = limit_of(claim.account, resource)
        if limit is None:
            continue
        used = held.sum_used(principal, resource)
        if message := _exceed_sentence(amount_taken(text), used, principal, resource, limit, ""):
            # The owner of an account may know which of its claims hold GPUs, and can end them.
            holders = "" if principal == GLOBAL else _holders(held.list_claims(claim.account), resource)
            yield Shortage(principal, resource, message + holders)


def _holders(held: Sequence[Claim], resource: str) -> str:
    """Name the claims that hold GPUs; for other resources none, since there are too many."""
    if not resource.startswith((_GPUS, _INSTANCES)):
        return ""
    names = [
        f"{claim.kind} {claim.id} has {claim.quantities[resource]}"
        for claim in held
        if resource in claim.quantities
    ]
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return f" ({'; '.join(names[:SHOWN] + more)})" if names else ""


def _over(claim: Claim, admitted: Sequence[Claim], rate: RateSettings, now: datetime) -> Iterator[Shortage]:
    mine = [other for other in admitted if rate.principal == GLOBAL or other.account == claim.account]
    counted = list_admitted(rate, mine, now)
    principal = GLOBAL if rate.principal == GLOBAL else f"accounts/{claim.account}"
    within = f" within {rate.duration}"
    wanted, used = amount_taken(claim.quantities[rate.resource]), usage(counted, rate.resource)
    if message := _exceed_sentence(wanted, used, principal, rate.resource, amount(rate.limit), within):
        yield Shortage(principal, rate.resource, message, "Rate")


def _exceed_sentence(
    wanted: Decimal, used: Decimal, principal: str, resource: str, limit: Decimal, within: str
) -> str | None:
    """Return the sentence about a limit that is exceeded; None where there is room."""
    if total((used, wanted)) <= limit:
        return None
    whose = "Global" if principal == GLOBAL else "Account"
    message = f"{whose} quota exceeded: {_name(resource)}: {quantity(used)}/{quantity(limit)}{within}"
    return message if wanted <= limit else f"{message}, and this alone takes {quantity(wanted)}"


def list_admitted(rate: RateSettings, claims: Iterable[Claim], now: datetime) -> list[Claim]:
    """Return the claims that were admitted within the rate's period, released or not."""
    start = rate.start(now)
    return [claim for claim in claims if claim.admitted_at is not None and claim.admitted_at >= start]


def count_created(
    rate: RateSettings,
    kinds: frozenset[str],
    created: Creations,
    principal: str,
    now: datetime,
    besides: str = "",
) -> Decimal:
    """Return the number of entities that a principal created within the rate's period, without `besides`."""
    return Decimal(created.count(kinds, principal, rate.start(now), now + LATE, besides))


def usage(claims: Iterable[Claim], resource: str) -> Decimal:
    """Return the quantity of a resource that the claims take together."""
    return total(amount_taken(claim.quantities[resource]) for claim in claims if resource in claim.quantities)


def _name(resource: str) -> str:
    if resource == ADMITTED:
        return "admitted workflows"
    if resource == _GPUS:
        return "GPUs"
    if resource.endswith(CREATED):
        return f"{resource.removesuffix(CREATED)} created"
    return f"{resource.removeprefix(_GPU).upper()} GPUs" if resource.startswith(_GPU) else resource


def resource_allocation(entity: AnyEntity) -> Mapping[str, str]:
    """Return what an admitted entity counts as, by the published schema: quota arithmetic, no request."""
    kind = entity.kind
    if isinstance(entity, Evaluation):
        if entity.inferenceSessionReference is not None:
            return {ADMITTED: "1"}
        gpus = _gpus(entity.inferenceSession)
    else:
        gpus = _gpus(entity) if isinstance(entity, InferenceSession) else {}
    if gpus:
        return {**gpus, ADMITTED: "1"}
    if kind not in _CPU_MEMORY:
        return {}
    cpu, memory = _CPU_MEMORY[kind]
    return {"cpu": cpu, "memory": memory, ADMITTED: "1"}


def _gpus(session: InferenceSessionSpec) -> dict[str, str]:
    """GPUs of all replicas, the runner's own where the session names none; of types that would do, each counts."""
    runner = session.inferenceService.runner
    accelerator = session.accelerator or (runner.accelerator if runner else None)
    if (
        accelerator is None
        or accelerator.kind != "GPU"
        or accelerator.gpu is None
        or accelerator.gpu.count < 1
    ):
        return {}
    count = accelerator.gpu.count * (runner.nodes if runner else 1) * session.replicas
    return {hardware: str(count) for hardware in accelerator.gpu.hardwareTypes}
