"""Storage locations in a resource: URLs, or prefixes below the setting `storage`."""

import re

_SEGMENT = r"[.]*[^/%\\.?#\x00-\x20][^/%\\?#\x00-\x20]*"
LOCATION_PATTERN = rf"^((file:///|(s3|gs|az)://))?{_SEGMENT}(/{_SEGMENT})*$"
"""Pattern of locations for the API server, on which RE2 and ECMA 262 agree: no empty, `.`, `..` or %-encoded segment.
"""


def check_location(location: str) -> str:
    """Return the location. Raises ValueError, which says what is wrong and what would be right."""
    # Without its anchors: Python's `$` also matches before a line break at the end.
    if not re.fullmatch(LOCATION_PATTERN[1:-1], location):
        raise ValueError(
            f"{location!r} should be file:///…, s3://…, gs://…, az://… or a prefix such as datasets/digits, "
            "without an empty, '.', '..' or %-encoded segment"
        )
    return location


def complete_location(location: str, storage: str) -> str:
    """Return the URL of a location: the setting `storage` completes a prefix. Raises ValueError."""
    check_location(location)
    if "://" in location:
        return location
    if not storage:
        raise ValueError(f"{location!r} is a prefix, and the setting storage is empty: it should be a URL")
    return f"{storage.rstrip('/')}/{location}"
