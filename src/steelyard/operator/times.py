"""Arithmetic on times that never overflows: results end where the calendar does.

A resource that was stored before its schema had bounds, or another project's Pod, may give 10**12 seconds.
"""

from datetime import UTC, datetime, timedelta

NEVER = datetime.max.replace(microsecond=0, tzinfo=UTC)
"""The last time that can be written."""
EVER = datetime.min.replace(tzinfo=UTC)
MAX_SECONDS = 2**31 - 1
"""Longest time for a child, 68 years: Kubernetes counts nanoseconds in 64 bits, which overflow after 293 years."""


def later(moment: datetime, seconds: float) -> datetime:
    """Add seconds, which may be negative, to a time; the result is in UTC and at most NEVER."""
    try:
        return moment.astimezone(UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return NEVER if seconds > 0 or moment.year > 9000 else EVER
