"""Admits entities: one pass decides about those that have changed, and about all that wait for capacity alone."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from steelyard.accounts.claims import Claim, Claims
from steelyard.accounts.creations import Creations
from steelyard.accounts.holdings import GrowingHoldings
from steelyard.accounts.quotas import NO_CREATION_RATES, TOO_MANY, CreationRates, Rates
from steelyard.services.orchestrator.admission import QUOTA, AdmissionContext, Limits, admissions
from steelyard.services.orchestrator.exemptions import ExemptingRates, counting
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.observed import ObservedClaims
from steelyard.services.orchestrator.rules import AdmissionRules
from steelyard.services.orchestrator.secrets import NoSecrets, SecretValues, lacking_secrets
from steelyard.services.orchestrator.waiting import Admit, Decision, Fail, Wait, Waiter
from steelyard.services.status_commands import Status
from steelyard_schema.status import NEVER_RAN

CHUNK = 500
"""Number of claims that are read at once."""
ADMITTED_AT_ONCE = 20
"""Number of admissions of one transaction: others who write to a file of SQLite wait for all of their checks."""


class Scheduler:
    """Decides on the observed claims, and admits in the database, which has the last word."""

    def __init__(  # noqa: PLR0913 (the rules and stores that it connects)
        self,
        claims: Claims,
        observed: ObservedClaims,
        limits: Limits,
        backfill_seconds: float,
        metrics: OrchestratorMetrics,
        rates: Rates,
        creations: CreationRates = NO_CREATION_RATES,
        *,
        secrets: SecretValues | None = None,
    ) -> None:
        self._claims = claims
        self._observed = observed
        self._limits = limits
        self._backfill = timedelta(seconds=backfill_seconds)
        self._metrics = metrics
        self._rates = ExemptingRates(rates)
        self._creations = creations
        self._secrets = secrets or NoSecrets()
        self._accepted: set[str] = set()
        """Entities that wait, and were within the rates of creations when they came."""
        self._recent: dict[str, Claim] = {}  # lately admitted, released or not: what the rates count

    def revise(self, rules: AdmissionRules) -> None:
        """Keep to other rules from the next pass on."""
        self._limits, self._creations = rules.limits, rules.creations
        self._rates = ExemptingRates(rules.rates)

    async def schedule(self, now: datetime, leader: int) -> tuple[list[str], list[tuple[Claim, Status]]]:
        """Return the ids that were admitted, and the statuses to publish for others.

        Raises AccountsDatabaseError if another leader, with a number above `leader`, has taken over.
        """
        decisions = await self._decide(now)
        claims = {id: self._observed.waiting[id].claim for id in decisions}
        chosen = [claims[id] for id, decision in decisions.items() if isinstance(decision, Admit)]
        refusals: dict[str, Decision] = {}
        for start in range(0, len(chosen), ADMITTED_AT_ONCE):
            refusals |= await self._admit(chosen[start : start + ADMITTED_AT_ONCE], now, leader)
        admitted = [claim.id for claim in chosen if claim.id not in refusals]
        reports: list[tuple[Claim, Status]] = []
        for number, (id, decision) in enumerate((decisions | refusals).items(), 1):
            # Lets the renewal of the lease and the consumer run between many decisions.
            if number % CHUNK == 0:
                await asyncio.sleep(0)
            if not isinstance(decision, Admit) and self._observed.begin_report(id, decision, now):
                status = decision.status if isinstance(decision, Fail) else "Created"
                reports.append((claims[id], Status(status, decision.reason, decision.message)))
        self._metrics.held.set(len(self._observed.held))
        self._metrics.count_waiting(self._observed.count_reasons())
        return admitted, reports

    async def _decide(self, now: datetime) -> dict[str, Decision]:
        """Return decisions by id. The caller holds the lock that keeps the observed claims from changing meanwhile."""
        waiters = self._observed.list_changed()
        obstacles: dict[str, Decision] = {}
        for start in range(0, len(waiters), CHUNK):
            chunk = waiters[start : start + CHUNK]
            known = await find_claims(self._claims, {need.id for waiter in chunk for need in waiter.needs})
            obstacles |= self._observed.find_obstacles(chunk, known)
            await asyncio.sleep(0)
        obstacles |= await self._excessive_creations(waiters)
        context = AdmissionContext(
            list(self._observed.held.values()), self._observed.turns, now, self._backfill
        )
        # Looked up at every pass, because no record of the log says that a secret was set: until then they take no
        # capacity.
        late = await lacking_secrets(list(self._observed.free.values()), self._secrets)
        late |= self._exceeding_rates(now)
        free = [claim for id, claim in self._observed.free.items() if id not in late]
        if len(free) <= CHUNK:
            return obstacles | late | admissions(free, self._limits, context)
        # This computes for a second and more; on the event loop it would delay the renewal of the lease.
        return obstacles | late | await asyncio.to_thread(admissions, free, self._limits, context)

    async def _excessive_creations(self, waiters: Sequence[Waiter]) -> dict[str, Decision]:
        """Return the ends of entities that were created beyond a rate. They hold nothing, and count for no other."""
        waiting = self._observed.waiting.keys()
        self._accepted &= waiting
        windows = {
            waiter.claim.id: window
            for waiter in waiters
            if waiter.claim.id not in self._accepted and (window := self._creations.window(waiter.claim))
        }
        created = await self._count_creations(list(windows.values()))
        refused: dict[str, Decision] = {}
        # In the order of creation: a refused one leaves room for those after it.
        claims = sorted((waiter.claim for waiter in waiters), key=lambda claim: (claim.created, claim.id))
        for number, claim in enumerate(claims, 1):
            if number % CHUNK == 0:
                await asyncio.sleep(0)
            is_new = claim.id in windows
            if is_new and (lacking := counting(claim, self._creations.shortages(claim, created))):
                self._observed.free.pop(claim.id, None)
                refused[claim.id] = Fail(NEVER_RAN, TOO_MANY, lacking[0].message)
            else:
                self._accepted.add(claim.id)
                if claim.reason != TOO_MANY:
                    created.add(claim)
        return refused

    async def _count_creations(self, windows: Sequence[tuple[frozenset[str], datetime]]) -> Creations:
        """Return what counts in the windows before a pass.

        It is read once: with a read for each claim, the time that a burst takes would grow with its square.
        """
        if not windows:
            return Creations()
        kinds = frozenset().union(*(kinds for kinds, _ in windows))
        claims = await self._claims.list_created(kinds, min(start for _, start in windows))
        waiting = self._observed.waiting.keys()
        # One whose turn has not come here does not count yet, whichever was created first.
        return Creations(
            other
            for other in claims
            if other.reason != TOO_MANY and (other.id in self._accepted or other.id not in waiting)
        )

    def _exceeding_rates(self, now: datetime) -> dict[str, Decision]:
        """Return decisions for claims that wait for a rate's window to pass: until then they take no capacity."""
        since = self._rates.since(now)
        if since is None:
            return {}
        known = (self._recent | self._observed.held).items()
        # What was released or forgotten since still counts within its window.
        self._recent = {id: claim for id, claim in known if claim.admitted_at and claim.admitted_at >= since}
        recent = list(self._recent.values())
        shortages = {
            id: self._rates.shortages(claim, recent, now) for id, claim in self._observed.free.items()
        }
        return {id: Wait(QUOTA, lacking[0].message) for id, lacking in shortages.items() if lacking}

    async def _admit(self, claims: Sequence[Claim], now: datetime, leader: int) -> dict[str, Decision]:
        """Admit claims in one transaction that checks the quotas again; return what others wait for, by id."""
        by_id = {claim.id: claim for claim in claims}
        held = GrowingHoldings()

        def refusal_for(id: str, admitted: Sequence[Claim]) -> str | None:
            claim = by_id[id]
            # Checked again on what the database holds in this very transaction: observed claims may be older (rule 11).
            short = self._limits.shortages(claim, held.among(admitted))
            lacking = [*short, *self._rates.shortages(claim, admitted, now)]
            return lacking[0].message if lacking else None

        since = self._rates.since(now)
        refusals = await self._claims.admit(list(by_id), now, refusal_for, leader, since)
        for claim in claims:
            if claim.id in refusals:
                continue
            self._observed.admit(claim, now)
            if since is not None:
                self._recent[claim.id] = replace(claim, admitted_at=now)
        return {id: Wait(QUOTA, refusal) for id, refusal in refusals.items()}


async def find_claims(claims: Claims, ids: Iterable[str]) -> Mapping[str, Claim]:
    """Return the claims of these ids, as far as there are any."""
    all_ids, known = list(ids), dict[str, Claim]()
    for start in range(0, len(all_ids), CHUNK):
        known |= await claims.find_claims(all_ids[start : start + CHUNK])
    return known
