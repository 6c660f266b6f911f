"""What the leader knows of those who wait and those who are admitted, made anew from the claims at each start.

It spares asking the claims for everything at every change: who waits for what stands in an index. What is decided on it
is judged once more where it counts, in the transaction that admits.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from steelyard.accounts.database import Claim
from steelyard.awake import pause_lasts
from steelyard.broker.quarantine.dead_letters import described
from steelyard.schema.entities import entity_of
from steelyard.services.orchestrator.admission import QUOTA, worth_telling
from steelyard.services.orchestrator.manifest import KUBE
from steelyard.services.orchestrator.waiting import Decision, Fail, Wait, Waiter, in_the_way, waiter_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Told:
    """What was last said of one who waits, and when."""

    decision: Wait | Fail
    time: datetime


def _obstacle(waiter: Waiter, known: Mapping[str, Claim]) -> Wait | Fail | None:
    """Obstacle of a waiter. Where it cannot be determined, that is the reason; the others are judged all the same."""
    try:
        return in_the_way(waiter, known)
    except Exception as error:  # noqa: BLE001 - pure: whatever it is, it is of this one's content
        _log.error("%s: what it waits for cannot be determined", waiter.claim.id, exc_info=error)
        return Wait("Quarantined", f"what it waits for cannot be determined: {described(error)}")


@dataclass
class World:
    """Claims of kinds that run in Kubernetes: those that wait, by id, and those that hold something."""

    retell_seconds: float
    waiting: dict[str, Waiter] = field(default_factory=dict)
    free: dict[str, Claim] = field(default_factory=dict)
    held: dict[str, Claim] = field(default_factory=dict)
    turns: dict[tuple[str, str], datetime] = field(default_factory=dict)
    _waiters: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _look: set[str] = field(default_factory=set)
    _told: dict[str, _Told] = field(default_factory=dict)

    def see(self, id: str, claim: Claim | None) -> bool:
        """The newest state of an entity. Whether somebody may be admitted now who could not be before: those who wait
        for it are looked at again.
        """
        held, waiter = id in self.held, self.waiting.get(id)
        free = id in self.free
        self._look |= self._waiters.get(id, set())
        self._drop(id)
        if claim is None or not self._keep(claim, waiter, free):
            self._told.pop(id, None)
            self._look.discard(id)
        return bool(self._look) or held != (id in self.held)

    def _keep(self, claim: Claim, waiter: Waiter | None, free: bool) -> bool:
        """Whether it waits."""
        if claim.kind not in KUBE:
            return False
        if claim.admitted_at is not None:
            if claim.released_at is None:
                self.admit(claim, claim.admitted_at)
            return False
        if claim.status != "Created":
            return False
        if waiter and waiter.claim.blocked == claim.blocked:  # it was only told what it waits for
            self._add(replace(waiter, claim=claim))
            if free:
                self.free[claim.id] = claim
        else:
            self._add(waiter_of(claim, entity_of(claim.json)))
            self._look.add(claim.id)
        return True

    def admit(self, claim: Claim, now: datetime) -> None:
        self._drop(claim.id)
        self._told.pop(claim.id, None)
        self._look.discard(claim.id)
        self.held[claim.id] = replace(claim, admitted_at=now)
        for resource in claim.quantities:
            turn = (claim.account, resource)
            self.turns[turn] = max(now, self.turns.get(turn, now))

    def release(self, id: str) -> None:
        self.held.pop(id, None)

    def account(self, id: str) -> str | None:
        """Account of an entity that waits or holds something."""
        if claim := self.held.get(id):
            return claim.account
        return self.waiting[id].claim.account if id in self.waiting else None

    def look_again(self) -> None:
        """At all who wait."""
        self._look |= self.waiting.keys()

    def to_look_at(self) -> list[Waiter]:
        """Those about whom something has changed."""
        return [self.waiting[id] for id in self._look & self.waiting.keys()]

    def judge(self, waiters: Iterable[Waiter], known: Mapping[str, Claim]) -> dict[str, Decision]:
        """What is in their way besides room; the others are free from now on."""
        obstacles: dict[str, Decision] = {}
        for waiter in waiters:
            id = waiter.claim.id
            self._look.discard(id)
            if obstacle := _obstacle(waiter, known):
                obstacles[id] = obstacle
                self.free.pop(id, None)
            else:
                self.free[id] = waiter.claim
        return obstacles

    def news(self, id: str, decision: Wait | Fail, now: datetime) -> bool:
        """Whether it is to be said, and then it counts as said. A position alone is told now and then only."""
        told = self._told.get(id)
        if isinstance(decision, Fail):
            fresh = told is None or told.decision != decision
        else:
            before = told.decision if told else self._state_says(id)
            fresh = not isinstance(before, Wait) or worth_telling(before, decision)
            if fresh and told and isinstance(before, Wait) and before.reason == decision.reason == QUOTA:
                fresh = not pause_lasts(told.time, self.retell_seconds, now)
        if fresh:
            self._told[id] = _Told(decision, now)
        return fresh

    def reasons(self) -> Counter[str]:
        """How many wait, by the reason that was said."""
        said = (self._told[id].decision if id in self._told else self._state_says(id) for id in self.waiting)
        return Counter(each.reason for each in said if each)

    def _state_says(self, id: str) -> Wait | None:
        claim = self.waiting[id].claim
        return Wait(claim.reason, claim.message or "") if claim.reason else None

    def _add(self, waiter: Waiter) -> None:
        id = waiter.claim.id
        self.waiting[id] = waiter
        for need in waiter.needs:
            self._waiters[need.id].add(id)

    def _drop(self, id: str) -> None:
        self.free.pop(id, None)
        self.held.pop(id, None)
        waiter = self.waiting.pop(id, None)
        for need in waiter.needs if waiter else ():
            self._waiters[need.id].discard(id)
            if not self._waiters[need.id]:
                del self._waiters[need.id]
