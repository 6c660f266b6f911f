"""Bodies of requests: written to disk as they come, in constant memory, and checked against the client's digests."""

import asyncio
import base64
import binascii
import hashlib
import os
import re
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from steelyard.services.storage_server.faults import S3Error

PIECE_BYTES = 2 << 20
"""Bytes that are hashed and written at once, in a thread."""
MOST_BYTES = 5 << 30
"""Most bytes of one body; S3's own limit."""
MOST_DOCUMENT_BYTES = 2 << 20


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc32:
    def __init__(self) -> None:
        self._sum = 0

    def update(self, data: bytes, /) -> None:
        self._sum = zlib.crc32(data, self._sum)

    def digest(self) -> bytes:
        return self._sum.to_bytes(4, "big")


_HASHES: Mapping[str, Callable[[], _Hash]] = {
    "content-md5": lambda: hashlib.md5(usedforsecurity=False),
    "x-amz-checksum-crc32": _Crc32,
    "x-amz-checksum-sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "x-amz-checksum-sha256": hashlib.sha256,
}
"""Headers with the digest of a body, in base64."""
CHECKSUMS = frozenset(name for name in _HASHES if name.startswith("x-amz-"))


@dataclass
class Digests:
    """Size and digests of a body as a client announces them, and hashes of the part that has come so far."""

    size: int
    sha256: str | None
    """Signed SHA-256, in hexadecimal digits."""
    expected: Mapping[str, bytes]
    """Digests by the names of their headers."""
    hashes: dict[str, _Hash] = field(init=False)
    seen: int = 0

    def __post_init__(self) -> None:
        self.hashes = {name: _HASHES[name]() for name in self.expected}
        if self.sha256 is not None:
            self.hashes["x-amz-content-sha256"] = hashlib.sha256()

    def update(self, piece: bytes) -> None:
        self.seen += len(piece)
        for hash in self.hashes.values():
            hash.update(piece)

    def check(self) -> None:
        """Raises S3Error for a body that is not the announced one."""
        if self.seen != self.size:
            raise S3Error("IncompleteBody", "The body has not the length that Content-Length says.")
        if self.sha256 is not None and self.hashes["x-amz-content-sha256"].digest().hex() != self.sha256:
            raise S3Error("XAmzContentSHA256Mismatch", "The body has not the SHA-256 that was signed.")
        for name, digest in self.expected.items():
            if self.hashes[name].digest() != digest:
                raise S3Error("BadDigest", f"The body has not the digest of the header {name}.")


def read_digests(headers: Mapping[str, str], sha256: str | None, most: int) -> Digests:
    """Return the size and the digests that the headers announce. Raises S3Error."""
    length = headers.get("content-length", "")
    if not re.fullmatch("[0-9]{1,20}", length):
        raise S3Error("MissingContentLength", "The length of the body is not given.")
    if int(length) > most:
        raise S3Error("EntityTooLarge", f"The body has more than {most} bytes.")
    expected = {name: read_digest(name, headers[name]) for name in _HASHES if name in headers}
    return Digests(int(length), sha256, expected)


def read_digest(name: str, text: str) -> bytes:
    """Return the digest of a header. Raises S3Error."""
    try:
        digest = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise S3Error("InvalidDigest", f"{name} should be base64.") from error
    if len(digest) != len(_HASHES[name]().digest()):
        raise S3Error("InvalidDigest", f"{name} has not the length of its digest.")
    return digest


async def receive(
    body: AsyncIterator[bytes], digests: Digests, file: BinaryIO, *, durable: bool
) -> os.stat_result:
    """Write a body to a file, to the disk if `durable`, and close it; return its facts.

    Raises S3Error for another body than was announced, OSError; the file may be open then.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in body:
        pieces.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            await asyncio.to_thread(_write, file, digests, pieces)
            pieces, size = [], 0

    def end() -> os.stat_result:
        _write(file, digests, pieces)
        digests.check()
        if durable:
            os.fsync(file.fileno())
        facts = os.fstat(file.fileno())
        file.close()
        return facts

    return await asyncio.to_thread(end)


def _write(file: BinaryIO, digests: Digests, pieces: list[bytes]) -> None:
    for piece in pieces:
        digests.update(piece)
        file.write(piece)
    file.flush()


async def read_document(body: AsyncIterator[bytes], digests: Digests) -> bytes:
    """Return a small body. Raises S3Error for another one than was announced."""
    data = b"".join([piece async for piece in body])
    digests.update(data)
    digests.check()
    return data
