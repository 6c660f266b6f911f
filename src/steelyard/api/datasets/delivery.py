"""Delivery of stored files: each is compared with its known digest before the recipient has it whole.

A file that was changed is refused with the reason DigestMismatch where it is small; of a large one the last piece does
not come, and the log says why.
"""

import hashlib
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from steelyard.api.http.errors import ContentChanged
from steelyard_evaluation.storage.checked import (
    PIECE,
    DigestMismatch,
    check_digest,
    check_object,
    check_pieces,
    find_digest,
)
from steelyard_evaluation.storage.store import StorageError, Store

READ_BEFORE = 64 << 20
"""Bytes up to which a file is read before its delivery begins, so that its refusal can say the reason."""
_log = logging.getLogger(__name__)


async def stream_file(store: Store, key: str, part: range | None = None) -> AsyncIterator[bytes]:
    """Return the pieces of a file of an entity, or of a part of it. Raises ContentChanged, and ObjectMissing before the
    first piece.

    A part of a large file is not compared: the digest is that of the whole.
    """
    size = (await store.head(key)).size
    with refuse_if_changed():
        sha256 = await find_digest(store, key)
        if sha256 is not None:
            await check_small(store, key, size, sha256)
    whole = check_pieces(store, key, size, sha256)
    return log_failures(whole if part is None else stream_part(store, key, part))


async def stream_part(store: Store, key: str, part: range) -> AsyncIterator[bytes]:
    """Yield some bytes of an object in pieces."""
    for start in range(part.start, part.stop, PIECE):
        yield await store.get_range(key, start, min(PIECE, part.stop - start))


async def read_content(store: Store, key: str) -> bytes:
    """Return a small file of an entity whole. Raises ContentChanged, ObjectMissing."""
    content = await store.get(key)
    with refuse_if_changed():
        check_digest(store, key, hashlib.sha256(content).hexdigest(), await find_digest(store, key))
    return content


async def check_small(store: Store, key: str, size: int, sha256: str) -> None:
    """Compare a file that can be read before it is delivered. Raises DigestMismatch."""
    if size <= READ_BEFORE:
        await check_object(store, key, sha256)


async def log_failures(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces; what ends them early is logged.

    By the announced length the recipient sees that the rest is missing.
    """
    try:
        async for piece in pieces:
            yield piece
    except StorageError as error:
        _log.error("a file could not be sent whole: %s", error)


@contextmanager
def refuse_if_changed() -> Iterator[None]:
    """Answer with the reason where a stored file differs from its manifest."""
    try:
        yield
    except DigestMismatch as error:
        _log.error("%s", error)
        # Where the store lies is the operator's matter.
        raise ContentChanged(error.public) from error
