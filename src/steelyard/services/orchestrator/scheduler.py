"""Admits: one pass over those about whom something has changed, and over all who wait for room alone."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from steelyard.accounts.database import Claim, Claims
from steelyard.accounts.quotas import Rates
from steelyard.services.orchestrator.admission import QUOTA, Limits, Situation, admissions
from steelyard.services.orchestrator.exemptions import ExemptingRates
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.observed import World
from steelyard.services.orchestrator.waiting import Admit, Decision, Fail, Wait
from steelyard.services.status_commands import Status

CHUNK = 500
"""Claims asked for at once."""


class Scheduler:
    """What it decides it says by `said`: the claim, and the status that its entity is to be told."""

    def __init__(
        self,
        claims: Claims,
        world: World,
        limits: Limits,
        backfill_seconds: float,
        metrics: OrchestratorMetrics,
        rates: Rates,
    ) -> None:
        self._claims = claims
        self._world = world
        self._limits = limits
        self._backfill = timedelta(seconds=backfill_seconds)
        self._metrics = metrics
        self._rates = ExemptingRates(rates)
        self._recent: dict[str, Claim] = {}  # admitted of late, released or not: what the rates count

    async def turn(self, now: datetime, leader: int) -> tuple[list[str], list[tuple[Claim, Status]]]:
        """Who was admitted, and what the others are to be told. Raises LedgerError when another leads by now."""
        decisions = await self._decide(now)
        admitted: list[str] = []
        told: list[tuple[Claim, Status]] = []
        for number, (id, decision) in enumerate(decisions.items(), 1):
            if number % CHUNK == 0:
                await asyncio.sleep(0)
            claim = self._world.waiting[id].claim
            word = await self._admit(claim, now, leader) if isinstance(decision, Admit) else decision
            if word is None:
                admitted.append(id)
            elif self._world.news(id, word, now):
                told.append((claim, _status(word)))
        self._metrics.held.set(len(self._world.held))
        self._metrics.count_waiting(self._world.reasons())
        return admitted, told

    async def _decide(self, now: datetime) -> dict[str, Decision]:
        """Whoever calls it keeps the world from changing meanwhile: with many who wait, others have their turn."""
        waiters = self._world.to_look_at()
        obstacles: dict[str, Decision] = {}
        for start in range(0, len(waiters), CHUNK):
            some = waiters[start : start + CHUNK]
            known = await known_claims(self._claims, {need.id for waiter in some for need in waiter.needs})
            obstacles |= self._world.judge(some, known)
            await asyncio.sleep(0)
        at = Situation(list(self._world.held.values()), self._world.turns, now, self._backfill)
        late = self._too_fast(now)
        free = [claim for id, claim in self._world.free.items() if id not in late]
        if len(free) <= CHUNK:
            return obstacles | late | admissions(free, self._limits, at)
        # A second and more of pure reckoning, which must not hold up the lease.
        return obstacles | late | await asyncio.to_thread(admissions, free, self._limits, at)

    def _too_fast(self, now: datetime) -> dict[str, Decision]:
        """Those whose admission has to wait for a window to pass: they take no room from others until then."""
        since = self._rates.since(now)
        if since is None:
            return {}
        known = (self._recent | self._world.held).items()
        self._recent = {id: each for id, each in known if each.admitted_at and each.admitted_at >= since}
        recent = list(self._recent.values())
        found = {id: self._rates.shortages(claim, recent, now) for id, claim in self._world.free.items()}
        return {id: Wait(QUOTA, short[0].message) for id, short in found.items() if short}

    async def _admit(self, claim: Claim, now: datetime, leader: int) -> Wait | None:
        """None when admitted: the claims have the last word, in one transaction with the claim itself."""

        def allowed(admitted: Sequence[Claim]) -> str | None:
            held = [each for each in admitted if each.released_at is None]
            found = [*self._limits.shortages(claim, held), *self._rates.shortages(claim, admitted, now)]
            return found[0].message if found else None

        since = self._rates.since(now)
        if refusal := await self._claims.admit(claim.id, now, allowed, leader, since):
            return Wait(QUOTA, refusal)
        self._world.admit(claim, now)
        if since is not None:
            self._recent[claim.id] = replace(claim, admitted_at=now)
        return None


async def known_claims(claims: Claims, ids: Iterable[str]) -> Mapping[str, Claim]:
    """The claims of these ids, as far as there are any."""
    wanted, found = list(ids), dict[str, Claim]()
    for start in range(0, len(wanted), CHUNK):
        found |= await claims.known(wanted[start : start + CHUNK])
    return found


def _status(decision: Wait | Fail) -> Status:
    if isinstance(decision, Fail):
        return Status(decision.status, decision.reason, decision.message)
    return Status("Created", decision.reason, decision.message)
