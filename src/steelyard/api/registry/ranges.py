"""Ranges of bytes, as requests name them."""

import re

from steelyard.api.registry.errors import RangeInvalid, UploadInvalid

_READ = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")
_CHUNK = re.compile(r"(?:bytes )?([0-9]{1,19})-([0-9]{1,19})(?:/.*)?")


def read_range(header: str | None, size: int) -> range | None:
    """Return the bytes that `Range` asks for. None stands for all: a header with another number of ranges also asks for
    all.

    Raises RangeInvalid if there is no such byte.
    """
    match = _READ.fullmatch(header or "")
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        asked = range(max(size - int(match[2]), 0), size)
    else:
        first = int(match[1])
        last = int(match[2]) if match[2] else size - 1
        if match[2] and last < first:
            return None  # not a range: the header is ignored
        asked = range(first, min(last + 1, size))
    if len(asked) == 0:
        raise RangeInvalid(
            f"Range: holds none of the {size} bytes of the blob", headers={"Content-Range": f"bytes */{size}"}
        )
    return asked


def chunk_range(header: str | None) -> range | None:
    """Return the bytes that a chunk's `Content-Range` announces; None without one. Raises UploadInvalid."""
    if header is None:
        return None
    match = _CHUNK.fullmatch(header.strip())
    if match is None or int(match[2]) < int(match[1]):
        raise UploadInvalid("Content-Range: should be the first and the last byte, such as 0-1023")
    return range(int(match[1]), int(match[2]) + 1)
