"""Rules for sending requests again: exponential back-off with full jitter. Nothing here does I/O."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from steelyard_common.backoff import backoff_seconds

RETRIED = frozenset({408, 429, 502, 503, 504})
UNDONE = frozenset({429, 503})
"""Statuses of those that say that the request had no effect."""
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class Retries:
    """Number of tries and their pauses: up to `first` seconds, then twice as long each time, up to `longest`.

    A platform that has never answered gets only `unmet` tries, so that a wrong address is reported soon; one that has
    answered before gets the time of a restart. A `Retry-After` is obeyed, unless it is above `patience`.
    """

    tries: int = 8
    unmet: int = 3
    first: float = 0.5
    longest: float = 8.0
    patience: float = 60.0
    between: Callable[[float, float], float] = random.uniform

    def after_answer(self, number: int, response: httpx.Response, *, repeatable: bool = True) -> float | None:
        """Return the seconds before try `number` + 1, counted from 1; None if there is no other try."""
        if response.status_code not in (RETRIED if repeatable else UNDONE) or number >= self.tries:
            return None
        wait = retry_after(response, datetime.now(UTC))
        if wait is None:
            return self._pause(number)
        # Clients that were refused together get the same pause; a little randomness keeps them from coming back
        # together.
        return None if wait > self.patience else wait + self.between(0, self.first)

    def after_fault(
        self, number: int, error: Exception, *, met: bool = True, repeatable: bool = True
    ) -> float | None:
        """Return the seconds after an error without an answer; `repeatable` if a second effect does no harm."""
        # The request may have arrived, and its answer been lost: sent again, it would have its effect twice.
        if not (repeatable or isinstance(error, UNSENT)):
            return None
        return self._pause(number) if number < min(self.tries, self.tries if met else self.unmet) else None

    def _pause(self, number: int) -> float:
        return self.between(0, backoff_seconds(number, self.first, self.longest))


def retry_after(response: httpx.Response, now: datetime) -> float | None:
    """Return the seconds that a Retry-After asks for, as a number or as a date."""
    text = response.headers.get("retry-after", "").strip()
    if text.replace(".", "", 1).isdigit() and text.isascii():
        return float(text)
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max((then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - now.timestamp(), 0.0)
