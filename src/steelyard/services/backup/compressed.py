"""Compressed content, unpacked up to a size that is known before: a kilobyte of gzip can stand for a megabyte."""

import zlib

_GZIP = zlib.MAX_WBITS | 16


class TooLargeUnpacked(ValueError):
    """The content stands for more than its reader takes."""


def unpack_gzip(data: bytes, limit: int) -> bytes:
    """Return the content. Raises TooLargeUnpacked, EOFError for a file that was cut short, zlib.error."""
    pieces: list[bytes] = []
    room = limit
    while data:
        unpacking = zlib.decompressobj(_GZIP)
        piece = unpacking.decompress(data, room + 1)
        if len(piece) > room:
            raise TooLargeUnpacked(f"stands for more than {limit} bytes")
        if not unpacking.eof:
            raise EOFError("the compressed content ends early")
        pieces.append(piece)
        room -= len(piece)
        data = unpacking.unused_data
    return b"".join(pieces)
