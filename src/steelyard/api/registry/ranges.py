"""Ranges of bytes, as requests name them."""

import re

from steelyard.api.http import ranges
from steelyard.api.registry.errors import RangeInvalid, UploadInvalid

_CHUNK = re.compile(r"(?:bytes )?([0-9]{1,19})-([0-9]{1,19})(?:/.*)?")


def read_range(header: str | None, size: int) -> range | None:
    """Return the bytes of a blob that `Range` asks for; None stands for all. Raises RangeInvalid if there is no such
    byte.
    """
    asked = ranges.read_range(header, size)
    if asked is not None and len(asked) == 0:
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
