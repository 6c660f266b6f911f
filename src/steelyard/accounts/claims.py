"""The protocol of the claims: what the orchestrator knows of each entity, and what it holds of a quota."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class Claim:
    """Record of one entity for the orchestrator: its newest state, and whether it is admitted.

    `blocked` holds ids of what it waits for; `quantities` is its resource allocation.
    """

    id: str
    kind: str
    account: str
    status: str
    json: bytes
    position: tuple[int, int]
    created: datetime
    reason: str | None = None
    message: str | None = None
    blocked: frozenset[str] = frozenset()
    quantities: Mapping[str, str] = field(default_factory=dict)
    admitted_at: datetime | None = None
    released_at: datetime | None = None
    terminal_at: datetime | None = None


@dataclass(frozen=True)
class ForgottenClaim:
    """Stands in place of a claim: the entity was forgotten by the command at this position."""

    position: tuple[int, int]


class Claims(Protocol):
    """The orchestrator's store: strongly consistent, and its consumer's positions lie in it."""

    async def positions(self, epoch: int) -> Mapping[int, int]: ...

    async def apply(
        self,
        changes: Sequence[tuple[str, Claim | ForgottenClaim | None]],
        epoch: int,
        positions: Mapping[int, int],
        leader: int,
    ) -> None:
        """Store the newest states by id, and the positions, in one transaction; None removes the claim.

        A claim's admission is kept; a change that is not newer than the claim is left out. An entity that is unfinished
        again after its claim was released has been restored, and has to be admitted again. Raises Superseded if
        `leader` is not the newest epoch, as every write does: a late write would undo what the new leader has done.
        """
        ...

    async def get(self, id: str) -> Claim | None: ...

    async def list_unfinished(self) -> Sequence[Claim]:
        """Claims that are not released or not terminal, oldest first."""
        ...

    async def find_claims(self, ids: Sequence[str]) -> Mapping[str, Claim]: ...

    async def quotas(self) -> Sequence[Claim]:
        """Return the claims of quotas that requests have set."""
        ...

    async def list_created(self, kinds: Collection[str], since: datetime) -> Sequence[Claim]:
        """Return the claims of kinds that were created from then on, oldest first, without their `json`."""
        ...

    async def list_counted(self, since: datetime | None = None) -> Sequence[Claim]:
        """Return what the check of an admission sees: claims that are held and, with `since`, admissions from then on.

        The claims come without their `json`.
        """
        ...

    async def admit(
        self,
        ids: Sequence[str],
        now: datetime,
        allowed: Callable[[str, Sequence[Claim]], str | None],
        leader: int,
        since: datetime | None = None,
    ) -> Mapping[str, str]:
        """Admit each entity, in order, if `allowed` finds no obstacle; all in one transaction with their checks.

        Return the reasons why entities were refused, by id; the others are admitted now or were before. An entity that
        is terminal or unknown is not admitted. `allowed` gets an id and the claims that are held, those among them that
        were admitted just before. With `since` it also gets every admission from then on, released ones and those of
        restored or forgotten entities included, because limits on rates count them. All of these claims come without
        their `json`. They are read once, however many entities there are. Raises Superseded, and what `allowed` raises;
        nothing is admitted then.
        """
        ...

    async def release(self, id: str, now: datetime, leader: int) -> None:
        """Releases the claims of entities that have ended. Does nothing to any other. Raises Superseded."""
        ...

    async def lead(self, owner: str, now: datetime) -> int:
        """A new leader's epoch, greater than any before."""
        ...
