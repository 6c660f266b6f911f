"""The one retry layer's rules: which answers are worth another try, and how long to wait for it.

Pure: `pool.py` applies them to replicas, `settle.py` to rows.
"""

from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from steelyard_common.backoff import backoff_seconds

FIRST_DELAY = 0.5
WAIT_FOR_SERVER_SECONDS = 600.0
"""Seconds for which a replica may refuse connections: large models take minutes to load."""
MOST_CONNECT_DELAY = 5.0
"""A connection that is refused costs nothing, and a server that is back should not wait for its first call."""
# Timeout, Too Early and Too Many Requests: the only 4xx whose repetition unchanged may succeed.
_TRANSIENT_STATUSES = frozenset({408, 425, 429})


@dataclass(frozen=True)
class RetryPolicy:
    """Full jitter: a random share of a ceiling that doubles from 0.5 s up to `cap`. `limit` counts retries."""

    limit: int
    cap: float
    wait_for_server: float = WAIT_FOR_SERVER_SECONDS

    def delay(self, failures: int, jitter: float, retry_after: float = 0.0) -> float:
        """Seconds to wait after the `failures`-th failure in a row; `jitter` is uniform in [0, 1)."""
        # Full jitter, as AWS measured it: rows that failed together come back spread out. What a server asks
        # for outranks it.
        return max(jitter * backoff_seconds(failures, FIRST_DELAY, self.cap), retry_after)

    def connect_delay(self, failures: int, jitter: float) -> float:
        """Seconds to wait after the `failures`-th refused connection in a row."""
        return min(self.delay(failures, jitter), MOST_CONNECT_DELAY)

    def exhausted(self, failures: int) -> bool:
        """Return whether `failures` in a row are more than the limit allows."""
        return failures > self.limit


def is_transient(status: int) -> bool:
    """Return whether the same request may succeed later: overload and server errors, not a request that is
    wrong.
    """
    return status >= 500 or status in _TRANSIENT_STATUSES


def retry_after(header: str | None, now: datetime) -> float:
    """The seconds that a Retry-After header asks for: a number, or a date; 0 when there is none to understand."""
    if header is None:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
    # A date without a zone is naive and cannot be subtracted: TypeError.
    except (TypeError, ValueError):
        return 0.0
