"""Blobs, whole or in ranges; streamed from storage."""

from starlette.responses import Response, StreamingResponse

from steelyard.api.datasets.delivery import check_small, log_failures, stream_part
from steelyard.api.http.context import RequestContext
from steelyard.api.http.ranges import content_range
from steelyard.api.registry.errors import BlobUnknown, ContentChanged
from steelyard.api.registry.ranges import read_range
from steelyard.api.registry.repository import hex_digits, readable, writable
from steelyard_evaluation.storage.checked import DigestMismatch, check_pieces

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
        headers["Content-Range"] = content_range(part, size)
    status = 200 if asked is None else 206
    if context.request.method == "HEAD":
        return Response(status_code=status, headers={**headers, "Content-Type": _MEDIA})
    try:
        await check_small(repository.store, key, size, hex_digits(digest))
    except DigestMismatch as error:
        raise ContentChanged(f"the stored blob is not that of its digest: {error.public}") from error
    # A client that asks for a part has to compare the whole itself, as it has the digest.
    whole = check_pieces(repository.store, key, size, hex_digits(digest))
    pieces = whole if asked is None else stream_part(repository.store, key, part)
    return StreamingResponse(log_failures(pieces), status, headers, _MEDIA)


async def delete(context: RequestContext) -> Response:
    """Accepted: the blob is gone."""
    repository, digest = await writable(context), context.values["digest"]
    if not await repository.holds_blob(digest):
        raise BlobUnknown(f"there is no blob {digest}")
    await repository.check_open()
    await repository.delete_blob(digest)
    return Response(status_code=202)
