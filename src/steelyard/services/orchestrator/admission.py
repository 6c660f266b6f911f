"""Whose turn it is: which of those who wait for nothing but room are admitted now, and what the others are told.

Pure. First in, first out within an account; accounts take turns, the one that was admitted longest ago first. Who
fits may pass one who does not (back-filling), until that one has waited for so long that what it lacks is kept for it.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from steelyard.accounts.database import Claim
from steelyard.accounts.quotas import GLOBAL, Shortage
from steelyard.services.orchestrator.waiting import Admit, Decision, Wait

QUOTA = "QuotaLimit"
EXACT = 10
"""Positions up to here are told exactly."""

_STEPS = tuple(factor * 10**power for power in range(1, 9) for factor in (1, 2, 5))
_IGNORES = re.compile(rb'"ignoreQuotas":\s*\[\s*\{')
_NEVER = datetime.min.replace(tzinfo=UTC)


class Limits(Protocol):
    """The quotas."""

    def shortages(self, claim: Claim, held: Sequence[Claim]) -> Sequence[Shortage]:
        """The quotas without room for the claim beside those held, the account's own first."""
        ...


@dataclass(frozen=True)
class Situation:
    """What else a pass looks at: the claims held; when an account was last given some of a resource; the time; and the
    age from which on what a claim lacks is kept for it.
    """

    held: Sequence[Claim]
    turns: Mapping[tuple[str, str], datetime]
    now: datetime
    backfill: timedelta


def admissions(claims: Sequence[Claim], limits: Limits, at: Situation) -> dict[str, Decision]:
    """A decision for each, by id; those admitted stand in the order of their admission."""
    queues = _queues(claims, at)
    room = _Room(limits, at, queues)
    decisions: dict[str, Decision] = {}
    lacking: dict[str, Shortage] = {}
    turns = deque(deque(queue) for queue in queues)
    while turns:
        queue = turns.popleft()
        while queue:
            claim = queue.popleft()
            if shortage := room.take(claim):
                lacking[claim.id] = shortage
                continue
            decisions[claim.id] = Admit()
            turns.append(queue)  # the next account's turn
            break
    for id, position in _positions(queues, lacking):
        decisions[id] = Wait(QUOTA, f"{lacking[id].message} ({_position_text(position)})")
    return decisions


def worth_telling(before: Wait | None, after: Wait) -> bool:
    """Whether what is to be said differs from what was said in more than a count of what is in use."""
    return (
        before is None or before.reason != after.reason or _lasting(before.message) != _lasting(after.message)
    )


class _Room:
    """What is left as the pass goes on. It only shrinks within a pass, so that one refusal speaks for its like."""

    def __init__(self, limits: Limits, at: Situation, queues: Sequence[Sequence[Claim]]) -> None:
        self._limits = limits
        self._now = at.now
        self._held = list(at.held)
        self._turns = dict(at.turns)
        self._refused: dict[tuple[object, ...], Shortage] = {}
        self._kept = _kept(limits, at, queues)

    def take(self, claim: Claim) -> Shortage | None:
        """Admit the claim, or say what it lacks."""
        if exempt(claim):
            found = next(iter(self._limits.shortages(claim, self._held)), None)
        else:
            alike = _alike(claim)
            found = self._refused.get(alike) or self._lacking(claim)
            if found:
                self._refused[alike] = found
        if found is None:
            self._held.append(claim)
            self._turns |= {(claim.account, resource): self._now for resource in claim.quantities}
        return found

    def _lacking(self, claim: Claim) -> Shortage | None:
        for resource in claim.quantities:
            for account, kept in self._kept.get(resource, {}).items():
                if self._comes_before(account, kept, claim, resource):
                    return kept.shortage
        return next(iter(self._limits.shortages(claim, self._held)), None)

    def _comes_before(self, account: str, kept: "_Kept", claim: Claim, resource: str) -> bool:
        if account == claim.account:
            return _age(kept.claim) < _age(claim)
        theirs = (self._turns.get((account, resource), _NEVER), _age(kept.claim))
        own = (self._turns.get((claim.account, resource), _NEVER), _age(claim))
        return kept.shortage.principal == GLOBAL and theirs < own


@dataclass(frozen=True)
class _Kept:
    """An old claim, and what it lacks and is kept for it."""

    claim: Claim
    shortage: Shortage


def _kept(limits: Limits, at: Situation, queues: Sequence[Sequence[Claim]]) -> dict[str, dict[str, _Kept]]:
    """By resource and account: for whom it is kept. Nothing is kept for one that could never fit."""
    kept: dict[str, dict[str, _Kept]] = defaultdict(dict)
    seen = set[tuple[object, ...]]()
    for claim in (each for queue in queues for each in queue):
        if at.now - claim.created < at.backfill or _alike(claim) in seen:
            continue
        seen.add(_alike(claim))  # the first of its like speaks for all
        for each in _wanted(claim, limits, at.held):
            kept[each.resource].setdefault(claim.account, _Kept(claim, each))
    return kept


def _wanted(claim: Claim, limits: Limits, held: Sequence[Claim]) -> Sequence[Shortage]:
    """What is to be kept for an old claim: nothing from others while its own account is in the way, all that it takes
    when it fits at last and only its turn has to come.
    """
    if limits.shortages(claim, ()):
        return ()
    if lacking := limits.shortages(claim, held):
        return [each for each in lacking if each.principal != GLOBAL] or lacking
    words = "is kept for a workflow that has waited longer"
    return [Shortage(GLOBAL, each, f"Global quota exceeded: {each} {words}") for each in claim.quantities]


def _alike(claim: Claim) -> tuple[object, ...]:
    return (claim.account, claim.kind, tuple(sorted(claim.quantities.items())))


def exempt(claim: Claim) -> bool:
    """Whether its entity names quotas that do not count for it."""
    return _IGNORES.search(claim.json) is not None


def _age(claim: Claim) -> tuple[datetime, str]:
    return (claim.created, claim.id)


def _queues(claims: Sequence[Claim], at: Situation) -> list[list[Claim]]:
    """One queue per account, first in first, in the order of their turns."""
    queues: dict[str, list[Claim]] = defaultdict(list)
    for claim in sorted(claims, key=_age):
        queues[claim.account].append(claim)
    last = dict[str, datetime]()
    for (account, _), time in at.turns.items():
        last[account] = max(time, last.get(account, _NEVER))
    return sorted(queues.values(), key=lambda queue: (last.get(queue[0].account, _NEVER), queue[0].created))


def _positions(
    queues: Sequence[Sequence[Claim]], lacking: Mapping[str, Shortage]
) -> Iterator[tuple[str, int]]:
    """Of all who wait for room: where in the account's queue, or among all where a global quota is in the way."""
    rounds = [[claim for claim in queue if claim.id in lacking] for queue in queues]
    overall = 0
    for turn in range(max(map(len, rounds), default=0)):
        for queue in rounds:
            if turn < len(queue):
                overall += 1
                claim = queue[turn]
                yield claim.id, overall if lacking[claim.id].principal == GLOBAL else turn + 1


def _position_text(position: int) -> str:
    """Exact near the front; far behind in steps, so that not each admission is news for everybody."""
    if position <= EXACT:
        return f"position {position}"
    return f"position up to {next(step for step in _STEPS if step >= position)}"


def _lasting(message: str) -> str:
    return re.sub(r"\d[\w.]*/", "/", message)
