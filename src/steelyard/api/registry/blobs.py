"""Blobs, whole or in ranges; streamed from storage."""

import logging
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from steelyard.api.http.context import RequestContext
from steelyard.api.registry.errors import BlobUnknown
from steelyard.api.registry.ranges import read_range
from steelyard.api.registry.repository import readable, writable
from steelyard.storage.store import StorageError, Store

_log = logging.getLogger(__name__)
_PIECE_BYTES = 4 << 20
_MEDIA = "application/octet-stream"


async def get(context: RequestContext) -> Response:
    """The blob, or the part of it that `Range` names."""
    repository, digest = await readable(context), context.values["digest"]
    key = repository.blob(digest)
    size = await repository.blob_size(digest)
    if size is None:
        raise BlobUnknown(f"there is no blob {digest}")
    asked = read_range(context.headers.get("range"), size)
    part = range(size) if asked is None else asked
    headers = {
        "Content-Length": str(len(part)),
        "Docker-Content-Digest": digest,
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-transform",
    }
    if asked is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    status = 200 if asked is None else 206
    if context.request.method == "HEAD":
        return Response(status_code=status, headers={**headers, "Content-Type": _MEDIA})
    return StreamingResponse(_pieces(repository.store, key, part), status, headers, _MEDIA)


async def delete(context: RequestContext) -> Response:
    """Accepted: the blob is gone."""
    repository, digest = await writable(context), context.values["digest"]
    if not await repository.holds_blob(digest):
        raise BlobUnknown(f"there is no blob {digest}")
    await repository.check_open()
    await repository.delete_blob(digest)
    return Response(status_code=202)


async def _pieces(store: Store, key: str, part: range) -> AsyncIterator[bytes]:
    for start in range(part.start, part.stop, _PIECE_BYTES):
        try:
            yield await store.get_range(key, start, min(_PIECE_BYTES, part.stop - start))
        except StorageError as error:
            # The headers are out; by the announced length the client sees that the rest is missing.
            _log.error("a blob could not be sent whole: %s", error)
            return
