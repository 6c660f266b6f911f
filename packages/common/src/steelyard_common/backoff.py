"""Pauses between tries that fail: each is twice the one before it, up to a longest one."""


def backoff_seconds(failures: int, first: float, longest: float) -> float:
    """Return the seconds to wait after so many failures in a row, `first` after the first one."""
    # The exponent is bounded: after a thousand failures the power would overflow a float.
    return min(longest, first * 2.0 ** min(max(failures - 1, 0), 60))
