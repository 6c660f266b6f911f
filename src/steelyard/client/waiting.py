"""When an entity that is waited for has ended, and how long to wait before the next look. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from steelyard.client.errors import WaitTimeout, WorkflowFailed
from steelyard.schema.base import DyffEntity
from steelyard.schema.status import SUCCESS, TERMINAL

E = TypeVar("E", bound=DyffEntity)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


@dataclass
class Waiting(Generic[E]):
    """One wait: fed with what each look has seen, it says how long to pause, or that it is over."""

    until: float
    on_change: Callable[[E], None] | None = None
    _last: tuple[str, str | None, str | None] | None = None
    _pause: float = FIRST_PAUSE

    def look(self, entity: E, now: float) -> float | None:
        """Seconds to the next look; None when it has ended well. Raises WorkflowFailed, WaitTimeout."""
        seen = (entity.status, entity.reason, entity.message)
        if seen != self._last:
            self._last, self._pause = seen, FIRST_PAUSE
            if self.on_change is not None:
                self.on_change(entity)
        if arrived(entity):
            return None
        if entity.status in TERMINAL:
            raise WorkflowFailed(f"{_named(entity)} is {entity.status}: {_why(entity)}", entity)
        if now >= self.until:
            raise WaitTimeout(f"{_named(entity)} has not ended: it is {entity.status}: {_why(entity)}")
        pause = min(self._pause, self.until - now)
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE)
        return max(pause, 0.0)


def arrived(entity: DyffEntity) -> bool:
    """Whether it has reached what it was made for: a session runs until it is ended, and is ready before."""
    if getattr(entity, "kind", "") == "InferenceSession":
        return entity.status == "Admitted" and entity.reason is None
    return entity.status in SUCCESS


def _named(entity: DyffEntity) -> str:
    return f"{getattr(entity, 'kind', 'entity')} {entity.id}"


def _why(entity: DyffEntity) -> str:
    return " ".join(filter(None, (entity.reason, entity.message))) or "no reason is given"
