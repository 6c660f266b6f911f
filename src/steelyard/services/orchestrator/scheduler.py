"""Admits: one pass over those about whom something has changed, and over all who wait for room alone."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from steelyard.accounts.ledger import Claim, Claims
from steelyard.services.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.world import World
from steelyard.services.scheduling import QUOTA, Limits, Situation, admissions
from steelyard.services.statuses import Status
from steelyard.services.waiting import Admit, Decision, Fail, Wait

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
    ) -> None:
        self._claims = claims
        self._world = world
        self._limits = limits
        self._backfill = timedelta(seconds=backfill_seconds)
        self._metrics = metrics

    async def turn(self, now: datetime, leader: int) -> tuple[list[str], list[tuple[Claim, Status]]]:
        """Who was admitted, and what the others are to be told. Raises LedgerError when another leads by now."""
        decisions = await self._decide(now)
        admitted: list[str] = []
        told: list[tuple[Claim, Status]] = []
        for id, decision in decisions.items():
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
        waiters = self._world.to_look_at()
        known = await known_claims(self._claims, {need.id for each in waiters for need in each.needs})
        obstacles = self._world.judge(waiters, known)
        at = Situation(list(self._world.held.values()), self._world.turns, now, self._backfill)
        return obstacles | admissions(list(self._world.free.values()), self._limits, at)

    async def _admit(self, claim: Claim, now: datetime, leader: int) -> Wait | None:
        """None when admitted: the claims have the last word, in one transaction with the claim itself."""

        def allowed(held: Sequence[Claim]) -> str | None:
            return next((each.message for each in self._limits.shortages(claim, held)), None)

        if refusal := await self._claims.admit(claim.id, now, allowed, leader):
            return Wait(QUOTA, refusal)
        self._world.admit(claim, now)
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
