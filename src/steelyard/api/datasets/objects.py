"""Handlers of signed URLs: one PUT into an upload area, one GET of a file. The signature is the only proof."""

import asyncio
import base64
import hashlib
import mimetypes
from pathlib import Path
from typing import BinaryIO

from starlette.responses import Response, StreamingResponse

from steelyard.api import spool
from steelyard.api.datasets.delivery import stream_file
from steelyard.api.datasets.uploads import verifier
from steelyard.api.http.access_log import SIGNED_FOR
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound, Unavailable
from steelyard.api.http.ranges import content_range, read_range
from steelyard_evaluation.storage.signing import BadSignature, Signer
from steelyard_evaluation.storage.staging import find_area, is_closed, read_closed
from steelyard_evaluation.storage.store import ObjectMissing, StorageFull

_PIECE_BYTES = 4 << 20
_CONTENT_SECURITY_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
)
"""Report pages are made by users: a browser runs nothing of them, loads nothing, and gives them no origin."""


async def put(context: RequestContext) -> Response:
    """No content: the file is in its upload area, whole.

    Where the upload was verified and `finalize` was cut short, the same file is accepted and not written: a client that
    repeats its upload comes to `finalize`, which ends it.
    """
    key = _verify_signature(context, "PUT")
    area, store = find_area(key), context.api.platform.store
    closed = area is None or await is_closed(store, area)
    kept = await read_closed(store, key) if closed else None
    if area is None or (closed and kept is None):
        raise Forbidden("the upload was finalized: this URL writes no more")
    with spool.make_folder(context.api.platform.settings, "steelyard-upload-") as folder:
        path = Path(folder, "file")
        digest = await _receive(context, path)
        expected = context.headers.get("content-md5")
        if expected and expected != digest:
            raise Invalid(f"Content-MD5: is {expected}, and the body has {digest}", field="Content-MD5")
        if kept is not None:
            if kept.md5 != digest:
                raise Conflict(
                    f"{kept.path}: was verified with other content, which stays; finalize was cut short: repeat it, or "
                    f"upload the same files again and finalize {area.id} then"
                )
            return Response(status_code=200)
        try:
            await store.put_file(key, path)
        except StorageFull as error:
            raise Unavailable(f"the storage is full: {error}", retry_after=60) from error
    return Response(status_code=200)


async def get(context: RequestContext) -> Response:
    """The file, or the part of it that `Range` names, unchanged: with its length, and never compressed.

    Readers of tables by their address, such as DuckDB, ask for the parts that they need.
    """
    key, store = _verify_signature(context, "GET"), context.api.platform.store
    try:
        size = (await store.head(key)).size
        # A range without a byte of the file is ignored.
        asked = read_range(context.headers.get("range"), size) or None
        pieces = await stream_file(store, key, asked)
    except ObjectMissing as error:
        raise NotFound(f"there is no object {key}") from error
    kind = mimetypes.guess_type(key)[0] or "application/octet-stream"
    headers = {
        "Content-Length": str(size if asked is None else len(asked)),
        "Accept-Ranges": "bytes",
        "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-transform",
    }
    if asked is not None:
        headers["Content-Range"] = content_range(asked, size)
    return StreamingResponse(pieces, 200 if asked is None else 206, headers, kind)


def _verify_signature(context: RequestContext, method: str) -> str:
    raw = context.request.scope["raw_path"].decode("ascii")
    path = raw.partition("/v0/objects/")[2]
    query = context.request.scope["query_string"].decode("ascii", "replace")
    try:
        key = verifier(context).verify(method, path, query, context.headers, context.now)
    except BadSignature as error:
        raise Forbidden(str(error)) from error
    context.connection.scope[SIGNED_FOR] = Signer.token(query)
    return key


async def _receive(context: RequestContext, path: Path) -> str:
    if context.headers.get("content-encoding", "identity") != "identity":
        raise BadRequest("Content-Encoding: the file should come as it is", field="Content-Encoding")
    md5 = hashlib.md5(usedforsecurity=False)
    with path.open("wb") as file:
        pieces: list[bytes] = []
        size = 0
        async for piece in context.stream(context.api.platform.settings.file_bytes):
            pieces.append(piece)
            size += len(piece)
            if size >= _PIECE_BYTES:
                await asyncio.to_thread(_write, file, md5, pieces)
                pieces, size = [], 0
        await asyncio.to_thread(_write, file, md5, pieces)
    return base64.b64encode(md5.digest()).decode()


def _write(file: BinaryIO, md5: "hashlib._Hash", pieces: list[bytes]) -> None:
    for piece in pieces:
        md5.update(piece)
        file.write(piece)
