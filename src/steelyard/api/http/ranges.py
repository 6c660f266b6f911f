"""Ranges of bytes, as readers of files name them."""

import re

_READ = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")


def read_range(header: str | None, size: int) -> range | None:
    """Return the bytes that `Range` asks for; an empty range if there is no such byte.

    None stands for all: a header with another number of ranges also asks for all.
    """
    match = _READ.fullmatch(header or "")
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        return range(max(size - int(match[2]), 0), size)
    first = int(match[1])
    last = int(match[2]) if match[2] else size - 1
    if match[2] and last < first:
        return None  # not a range: the header is ignored
    return range(first, min(last + 1, size))


def content_range(part: range, size: int) -> str:
    """Return the value of `Content-Range` for a part of so many bytes."""
    return f"bytes {part.start}-{part.stop - 1}/{size}"
