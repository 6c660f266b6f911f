"""Decisions while the client waits for an entity: whether it has ended, and when to ask again. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from steelyard.client.errors import ClientError, NothingToWaitFor, WaitTimeout, WorkflowFailed
from steelyard_schema.base import DyffEntity
from steelyard_schema.status import SUCCESS, TERMINAL

E = TypeVar("E", bound=DyffEntity)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
_MISSING_REASONS = {"WaitingForUpload": "its files have to be uploaded and finalized"}
_ENDS_ELSEWHERE = {
    "Team": "the challenge's organiser approves it",
}
"""Kinds whose own status never shows a success, and what to do instead."""
AWAY_SECONDS = 60.0
"""Time without an answer after which the platform is taken for gone."""


@dataclass
class Waiting(Generic[E]):
    """State of one wait: from each state of the entity it decides how long to pause, or that the wait is over."""

    until: float
    on_change: Callable[[E], None] | None = None
    last: E | None = None
    _pause: float = FIRST_PAUSE
    _away_since: float | None = None

    def observe(self, entity: E, now: float, *, ready: bool | None = None) -> float | None:
        """Return the seconds to the next request; None if the entity has ended well.

        `ready` tells whether a replica of a session answers. Raises WorkflowFailed, WaitTimeout, and NothingToWaitFor.
        """
        before, self.last, self._away_since = self.last, entity, None
        if before is None or _state(before) != _state(entity):
            self._pause = FIRST_PAUSE
            if self.on_change is not None:
                self.on_change(entity)
        if arrived(entity, ready):
            return None
        if entity.status in TERMINAL:
            raise WorkflowFailed(f"{_name(entity)} is {entity.status}: {_reason_text(entity)}", entity)
        if hint := _ENDS_ELSEWHERE.get(getattr(entity, "kind", "")):
            raise NothingToWaitFor(f"{_name(entity)} is {entity.status}, which shows no success: {hint}")
        if now >= self.until:
            raise WaitTimeout(
                f"{_name(entity)} has not ended in time: it is {entity.status}: {_reason_text(entity)}",
                entity,
            )
        return self._next(now)

    def away(self, error: ClientError, now: float) -> float:
        """Return the seconds to the next request, after one without an answer. Raises the error after a minute."""
        self._away_since = now if self._away_since is None else self._away_since
        if self.last is None or now >= self.until or now - self._away_since > AWAY_SECONDS:
            raise error
        return self._next(now)

    def _next(self, now: float) -> float:
        pause, self._pause = self._pause, min(self._pause * 1.5, LONGEST_PAUSE)
        return max(min(pause, self.until - now), 0.0)


def arrived(entity: DyffEntity, ready: bool | None) -> bool:
    """Return whether the entity has reached its purpose: a session while a replica answers, others at their end."""
    if is_session(entity):
        return entity.status == "Admitted" and ready is True
    return entity.status in SUCCESS


def is_session(entity: DyffEntity) -> bool:
    return getattr(entity, "kind", "") == "InferenceSession"


def _state(entity: DyffEntity) -> tuple[str, str | None, str | None]:
    return entity.status, entity.reason, entity.message


def _name(entity: DyffEntity) -> str:
    return f"{getattr(entity, 'kind', 'entity')} {entity.id}"


def _reason_text(entity: DyffEntity) -> str:
    text = ": ".join(filter(None, (entity.reason, entity.message)))
    return text or _MISSING_REASONS.get(entity.status, "no reason is given")
