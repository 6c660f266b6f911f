"""Chooses which of the entities that wait for capacity alone are admitted now, and the message of the others.

Pure. First in, first out within an account; accounts take turns, the one that was admitted longest ago first. A claim
that fits may pass one that does not (back-filling), until that one has waited so long that what it lacks is reserved
for it.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from steelyard.accounts.claims import Claim
from steelyard.accounts.holdings import Holdings
from steelyard.accounts.quotas import GLOBAL, Shortage
from steelyard.services.orchestrator.waiting import Admit, Decision, Wait

QUOTA = "QuotaLimit"
EXACT = 10
"""Positions in the queue up to this one are reported exactly."""

_STEPS = tuple(factor * 10**power for power in range(1, 9) for factor in (1, 2, 5))
_IGNORES = re.compile(rb'"ignoreQuotas":\s*\[\s*\{')
_NEVER = datetime.min.replace(tzinfo=UTC)


class Limits(Protocol):
    """The quotas."""

    def shortages(self, claim: Claim, held: Holdings) -> Sequence[Shortage]:
        """Return the quotas that the claim would exceed together with those held, the account's own first."""
        ...


@dataclass(frozen=True)
class AdmissionContext:
    """Facts that a pass considers besides the claims that wait.

    `held` are admitted claims that were not released; `turns` the time at which an account was last given some of a
    resource; `backfill` the age at which a waiting claim has reserved what it lacks.
    """

    held: Sequence[Claim]
    turns: Mapping[tuple[str, str], datetime]
    now: datetime
    backfill: timedelta

    def holdings(self) -> Holdings:
        """Return the held claims at the beginning of the pass; others may be added."""
        return Holdings(self.held)


def admissions(claims: Sequence[Claim], limits: Limits, context: AdmissionContext) -> dict[str, Decision]:
    """Return a decision for each claim, by id; admitted ones stand in the order of their admission."""
    queues = _queues(claims, context)
    capacity = _Capacity(limits, context, queues)
    decisions: dict[str, Decision] = {}
    lacking: dict[str, Shortage] = {}
    # Round robin: one account with a thousand claims delays each other account by one admission.
    turns = deque(deque(queue) for queue in queues)
    while turns:
        queue = turns.popleft()
        while queue:
            claim = queue.popleft()
            if shortage := capacity.take(claim):
                lacking[claim.id] = shortage
                continue
            decisions[claim.id] = Admit()
            turns.append(queue)  # the next account's turn
            break
    for id, position in _positions(queues, lacking):
        decisions[id] = Wait(QUOTA, f"{lacking[id].message} ({_position_text(position)})")
    return decisions


def is_news(before: Wait | None, after: Wait) -> bool:
    """Return whether a message differs from the one before in more than the used count."""
    return (
        before is None
        or before.reason != after.reason
        or _without_counts(before.message) != _without_counts(after.message)
    )


class _Capacity:
    """The capacity that is left during a pass.

    It only shrinks, so that one refusal holds for every claim of the same shape.
    """

    def __init__(self, limits: Limits, context: AdmissionContext, queues: Sequence[Sequence[Claim]]) -> None:
        self._limits = limits
        self._now = context.now
        self._held = context.holdings()
        self._turns = dict(context.turns)
        self._refused: dict[tuple[object, ...], Shortage] = {}
        self._reservations = _reservations(limits, context, queues)

    def take(self, claim: Claim) -> Shortage | None:
        """Admit the claim, or return what it lacks."""
        # Neither reservations nor turns hold it up, and its refusal says nothing about others of its shape.
        if is_exempt(claim):
            shortage = next(iter(self._limits.shortages(claim, self._held)), None)
        else:
            shape = _shape(claim)
            # Thousands of equal claims wait at a time: one refusal answers for all, since capacity only shrinks in a
            # pass.
            shortage = self._refused.get(shape) or self._shortage(claim)
            if shortage:
                self._refused[shape] = shortage
        if shortage is None:
            self._held.add(claim)
            self._turns |= {(claim.account, resource): self._now for resource in claim.quantities}
        return shortage

    def _shortage(self, claim: Claim) -> Shortage | None:
        for resource in claim.quantities:
            for account, reservation in self._reservations.get(resource, {}).items():
                if self._comes_before(account, reservation, claim, resource):
                    return reservation.shortage
        return next(iter(self._limits.shortages(claim, self._held)), None)

    def _comes_before(self, account: str, reservation: "_Reservation", claim: Claim, resource: str) -> bool:
        if account == claim.account:
            return _age(reservation.claim) < _age(claim)
        theirs = (self._turns.get((account, resource), _NEVER), _age(reservation.claim))
        own = (self._turns.get((claim.account, resource), _NEVER), _age(claim))
        return reservation.shortage.principal == GLOBAL and theirs < own


@dataclass(frozen=True)
class _Reservation:
    """An old claim, and what it lacks and is reserved for it."""

    claim: Claim
    shortage: Shortage


def _reservations(
    limits: Limits, context: AdmissionContext, queues: Sequence[Sequence[Claim]]
) -> dict[str, dict[str, _Reservation]]:
    """Return reservations by resource and account. A claim that could never fit is left out."""
    reservations: dict[str, dict[str, _Reservation]] = defaultdict(dict)
    shapes = set[tuple[object, ...]]()
    held = context.holdings()
    for claim in (claim for queue in queues for claim in queue):
        # Young claims may be passed by smaller ones: reserving for them would leave machines idle.
        if context.now - claim.created < context.backfill or _shape(claim) in shapes:
            continue
        shapes.add(_shape(claim))  # the first of a shape reserves for all of them
        for shortage in _to_reserve(claim, limits, held):
            reservations[shortage.resource].setdefault(claim.account, _Reservation(claim, shortage))
    return reservations


def _to_reserve(claim: Claim, limits: Limits, held: Holdings) -> Sequence[Shortage]:
    """Return the reservation for an old claim.

    Nothing is reserved from other accounts while its own account's quota is exceeded. All that it takes is reserved
    when it fits at last and only its turn has to come.
    """
    # It is larger than the whole quota: a reservation would hold capacity for what can never run.
    if limits.shortages(claim, Holdings()):
        return ()
    if lacking := limits.shortages(claim, held):
        return [shortage for shortage in lacking if shortage.principal != GLOBAL] or lacking
    text = "is kept for a workflow that has waited longer"
    return [
        Shortage(GLOBAL, resource, f"Global quota exceeded: {resource} {text}")
        for resource in claim.quantities
    ]


def _shape(claim: Claim) -> tuple[object, ...]:
    """Return what quotas depend on: claims of one shape are admitted or refused alike."""
    return (claim.account, claim.kind, tuple(sorted(claim.quantities.items())))


def is_exempt(claim: Claim) -> bool:
    """Return whether the claim's entity names quotas that do not count for it."""
    return _IGNORES.search(claim.json) is not None


def _age(claim: Claim) -> tuple[datetime, str]:
    return (claim.created, claim.id)


def _queues(claims: Sequence[Claim], context: AdmissionContext) -> list[list[Claim]]:
    """Return one queue per account, oldest claim first, in the order of the accounts' turns."""
    queues: dict[str, list[Claim]] = defaultdict(list)
    for claim in sorted(claims, key=_age):
        queues[claim.account].append(claim)
    last = dict[str, datetime]()
    for (account, _), time in context.turns.items():
        last[account] = max(time, last.get(account, _NEVER))
    return sorted(queues.values(), key=lambda queue: (last.get(queue[0].account, _NEVER), queue[0].created))


def _positions(
    queues: Sequence[Sequence[Claim]], lacking: Mapping[str, Shortage]
) -> Iterator[tuple[str, int]]:
    """Yield id and position of each claim that waits: in the account's queue, or among all for a global quota."""
    rounds = [[claim for claim in queue if claim.id in lacking] for queue in queues]
    overall = 0
    for turn in range(max(map(len, rounds), default=0)):
        for queue in rounds:
            if turn < len(queue):
                overall += 1
                claim = queue[turn]
                yield claim.id, overall if lacking[claim.id].principal == GLOBAL else turn + 1


def _position_text(position: int) -> str:
    # Far behind, positions are rounded up: otherwise each admission would change the message of every waiting entity.
    if position <= EXACT:
        return f"position {position}"
    return f"position up to {next(step for step in _STEPS if step >= position)}"


def _without_counts(message: str) -> str:
    return re.sub(r"\d[\w.]*/", "/", message)
