"""Observed claims: those that wait and those that hold something, made again from the database at each leader's start.

They spare the database a question at every change: an index says who waits for what. A decision that is made on them is
made once more where it counts, in the transaction that admits.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from steelyard.accounts.claims import Claim
from steelyard.broker.quarantine.dead_letters import describe_error
from steelyard.services.orchestrator.admission import QUOTA, is_news
from steelyard.services.orchestrator.waiting import Decision, Fail, Wait, Waiter, make_waiter, obstacle
from steelyard_common.awake import pause_lasts
from steelyard_schema.entities import parse_entity
from steelyard_schema.status import WITH_WORKFLOW

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Report:
    """The decision about a waiting entity that was published last, and when."""

    decision: Wait | Fail
    time: datetime


@dataclass
class ObservedClaims:
    """Claims of kinds that run in Kubernetes.

    `waiting` are not admitted, `free` are those of them that wait for capacity alone, `held` are admitted and not
    released. `report_seconds` is the least time between two reports that differ in the queue position alone.
    """

    report_seconds: float
    waiting: dict[str, Waiter] = field(default_factory=dict)
    free: dict[str, Claim] = field(default_factory=dict)
    held: dict[str, Claim] = field(default_factory=dict)
    turns: dict[tuple[str, str], datetime] = field(default_factory=dict)
    _waiters: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by the id they wait for
    _changed: set[str] = field(default_factory=set)
    _reports: dict[str, _Report] = field(default_factory=dict)

    def update(self, id: str, claim: Claim | None) -> bool:
        """Take the newest claim of an entity. Whether an entity may be admissible now that was not before."""
        was_held, waiter = id in self.held, self.waiting.get(id)
        was_free = id in self.free
        # The entities that wait for this one may go on, or fail with it.
        self._changed |= self._waiters.get(id, set())
        self._drop(id)
        if claim is None or not self._insert(claim, waiter, was_free):
            self._reports.pop(id, None)
            self._changed.discard(id)
        return bool(self._changed) or was_held != (id in self.held)

    def _insert(self, claim: Claim, waiter: Waiter | None, was_free: bool) -> bool:
        """Add the claim where it belongs. Whether it waits."""
        if claim.kind not in WITH_WORKFLOW:
            return False
        if claim.admitted_at is not None:
            if claim.released_at is None:
                self.admit(claim, claim.admitted_at)
            return False
        if claim.status != "Created":
            return False
        if waiter and waiter.claim.blocked == claim.blocked:
            # The state changed because our own report arrived: there is nothing to decide again.
            self._add_waiter(replace(waiter, claim=claim))
            if was_free:
                self.free[claim.id] = claim
        else:
            self._add_waiter(make_waiter(claim, parse_entity(claim.json)))
            self._changed.add(claim.id)
        return True

    def admit(self, claim: Claim, now: datetime) -> None:
        """Move the claim to those held, and note the account's turn."""
        self._drop(claim.id)
        self._reports.pop(claim.id, None)
        self._changed.discard(claim.id)
        self.held[claim.id] = replace(claim, admitted_at=now)
        for resource in claim.quantities:
            turn = (claim.account, resource)
            # Claims are read in any order at a start; an account's turn is that of its newest admission.
            self.turns[turn] = max(now, self.turns.get(turn, now))

    def release(self, id: str) -> None:
        """Free what the claim holds."""
        self.held.pop(id, None)

    def account(self, id: str) -> str | None:
        """Return the account of an entity that waits or holds something."""
        if claim := self.held.get(id):
            return claim.account
        return self.waiting[id].claim.account if id in self.waiting else None

    def mark_all_changed(self) -> None:
        """Let the next pass decide about every entity that waits."""
        self._changed |= self.waiting.keys()

    def list_changed(self) -> list[Waiter]:
        """Return the entities that wait and about which something has changed."""
        return [self.waiting[id] for id in self._changed & self.waiting.keys()]

    def find_obstacles(self, waiters: Iterable[Waiter], known: Mapping[str, Claim]) -> dict[str, Decision]:
        """Return the obstacles besides capacity, by id; waiters without one are free from now on."""
        obstacles: dict[str, Decision] = {}
        for waiter in waiters:
            id = waiter.claim.id
            self._changed.discard(id)
            if decision := _isolate(waiter, known):
                obstacles[id] = decision
                self.free.pop(id, None)
            else:
                self.free[id] = waiter.claim
        return obstacles

    def begin_report(self, id: str, decision: Wait | Fail, now: datetime) -> bool:
        """Return whether the decision is to be published; from then on it counts as published."""
        last = self._reports.get(id)
        if isinstance(decision, Fail):
            # A failure is reported at once: it ends the entity, and cannot come twice with the same words.
            is_new = last is None or last.decision != decision
        else:
            before = last.decision if last else self._decision_in_state(id)
            is_new = not isinstance(before, Wait) or is_news(before, decision)
            # Positions in a long queue change with every admission; publishing each would flood the log.
            if is_new and last and isinstance(before, Wait) and before.reason == decision.reason == QUOTA:
                is_new = not pause_lasts(last.time, self.report_seconds, now)
        if is_new:
            self._reports[id] = _Report(decision, now)
        return is_new

    def count_reasons(self) -> Counter[str]:
        """Return the number of waiting entities by the reason that was published."""
        decisions = (
            self._reports[id].decision if id in self._reports else self._decision_in_state(id)
            for id in self.waiting
        )
        return Counter(decision.reason for decision in decisions if decision)

    def _decision_in_state(self, id: str) -> Wait | None:
        claim = self.waiting[id].claim
        return Wait(claim.reason, claim.message or "") if claim.reason else None

    def _add_waiter(self, waiter: Waiter) -> None:
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
            # Empty sets of ids that no entity waits for any more would grow without end.
            if not self._waiters[need.id]:
                del self._waiters[need.id]


def _isolate(waiter: Waiter, known: Mapping[str, Claim]) -> Wait | Fail | None:
    """Return the obstacle of one entity. If it cannot be determined, that is the reason why this entity waits."""
    try:
        return obstacle(waiter, known)
    except Exception as error:  # noqa: BLE001 - the function is pure: the entity's content is the only cause
        _log.error("%s: what it waits for cannot be determined", waiter.claim.id, exc_info=error)
        return Wait("Quarantined", f"what it waits for cannot be determined: {describe_error(error)}")
