"""Refusals of the API: a controller tells one, waits, and does not tell it anew at each try.

The API's messages name requests, times and amounts. A status with the words of each try would be a change at each try,
which wakes its own writer and all who follow the object.
"""

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from steelyard_kube.errors import ServerTimeout, TooManyRequests, Unauthorized, Unreachable
from steelyard_kube.workqueue import Backoff

K = TypeVar("K", bound=Hashable)

BUSY = (ServerTimeout, TooManyRequests, Unauthorized, Unreachable)
"""Errors of the server or of the moment. They say nothing about the content of the request."""
PAUSES = Backoff(base=1.0, cap=60.0)
SAID_FOR = timedelta(minutes=1)
"""Time for which the words about one refused object stay, whatever the next tries are told."""


class ToldRefusals(Generic[K]):
    """The refusals that are told, by what waits for the refused object."""

    def __init__(self) -> None:
        self._told: dict[K, tuple[str, str, datetime]] = {}

    def words(self, key: K, refused: str, message: str, now: datetime) -> str:
        """Return the message for `key`: for a while, the first one about the same refused object."""
        known, words, since = self._told.get(key, ("", "", now))
        if known != refused or not words or now - since >= SAID_FOR:
            words, since = message, now
        self._told[key] = refused, words, since
        return words

    def forget(self, key: K) -> None:
        """Drop the message of `key`, which is refused no longer."""
        self._told.pop(key, None)


class Pauses(Generic[K]):
    """Pauses of refused objects, each longer than the one before. For loops without a work queue, which has its own.

    `clock` gives seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[K, tuple[int, float]] = {}  # refusals in a row, and the end of the pause

    def begin(self, key: K) -> None:
        """Let `key` wait after a refusal."""
        refusals = self._until.get(key, (0, 0.0))[0]
        self._until[key] = refusals + 1, self._clock() + PAUSES.delay(refusals)

    def holds(self, key: K) -> bool:
        """Return whether `key` has to wait."""
        return self._clock() < self._until.get(key, (0, 0.0))[1]

    def forget(self, key: K) -> None:
        """Let the next pause of `key` be a short one."""
        self._until.pop(key, None)

    def next_in(self) -> float | None:
        """Return the seconds until a pause ends; forget the objects given up long ago."""
        now = self._clock()
        self._until = {key: pause for key, pause in self._until.items() if now < pause[1] + 2 * PAUSES.cap}
        return min((end - now for _, end in self._until.values() if end > now), default=None)
