"""Times that are reckoned from numbers of others: they end where the calendar does, and never overflow.

A resource that was stored before its schema had bounds, or a Pod of somebody else's, may ask for 10**12 seconds.
"""

from datetime import UTC, datetime, timedelta

NEVER = datetime.max.replace(microsecond=0, tzinfo=UTC)
"""The last moment that can be written."""
EVER = datetime.min.replace(tzinfo=UTC)
MAX_SECONDS = 2**31 - 1
"""Longest time that a child is given, 68 years: Kubernetes counts nanoseconds in 64 bits, which 293 years overflow."""


def later(moment: datetime, seconds: float) -> datetime:
    """So many seconds after a moment, or before it where they are negative."""
    try:
        return moment.astimezone(UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return NEVER if seconds > 0 or moment.year > 9000 else EVER
