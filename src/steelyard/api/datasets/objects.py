"""What signed URLs lead to: one PUT into an upload area, one GET of a file. No other proof is asked for."""

import asyncio
import base64
import hashlib
import mimetypes
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from starlette.responses import Response, StreamingResponse

from steelyard.api.datasets.uploads import verifier
from steelyard.api.http.context import Call
from steelyard.api.http.errors import BadRequest, Forbidden, Invalid, NotFound, Unavailable
from steelyard.storage.signing import BadSignature
from steelyard.storage.staging import area_of, is_closed
from steelyard.storage.store import ObjectMissing, StorageError, StorageFull, Store

_PIECE = 4 << 20
_PAGE = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
"""Pages are made by users: they run nothing, load nothing, and have no origin."""


async def put(call: Call) -> Response:
    """One file into its upload area, whole or not at all."""
    key = _verified(call, "PUT")
    area, store = area_of(key), call.api.platform.store
    if area is None or await is_closed(store, area):
        raise Forbidden("the upload was finalized: this URL writes no more")
    spool = call.api.platform.settings.spool or None
    with tempfile.TemporaryDirectory(dir=spool, prefix="steelyard-upload-") as folder:
        path = Path(folder, "file")
        digest = await _receive(call, path)
        wanted = call.headers.get("content-md5")
        if wanted and wanted != digest:
            raise Invalid(f"Content-MD5: is {wanted}, and the body has {digest}", field="Content-MD5")
        try:
            await store.put_file(key, path)
        except StorageFull as error:
            raise Unavailable(f"the storage is full: {error}", retry_after=60) from error
    return Response(status_code=200)


async def get(call: Call) -> Response:
    """One file, as it is: with its length, and never encoded."""
    key, store = _verified(call, "GET"), call.api.platform.store
    try:
        size = (await store.head(key)).size
    except ObjectMissing as error:
        raise NotFound(f"there is no object {key}") from error
    kind = mimetypes.guess_type(key)[0] or "application/octet-stream"
    headers = {
        "Content-Length": str(size),
        "Content-Security-Policy": _PAGE,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-transform",
    }
    return StreamingResponse(_pieces(store, key, size), headers=headers, media_type=kind)


def _verified(call: Call, method: str) -> str:
    raw = call.request.scope["raw_path"].decode("ascii")
    path = raw.partition("/v0/objects/")[2]
    query = call.request.scope["query_string"].decode("ascii", "replace")
    try:
        return verifier(call).verify(method, path, query, call.headers, call.now)
    except BadSignature as error:
        raise Forbidden(str(error)) from error


async def _receive(call: Call, path: Path) -> str:
    if call.headers.get("content-encoding", "identity") != "identity":
        raise BadRequest("Content-Encoding: the file should come as it is", field="Content-Encoding")
    md5 = hashlib.md5(usedforsecurity=False)
    with path.open("wb") as file:
        pieces: list[bytes] = []
        size = 0
        async for piece in call.stream(call.api.platform.settings.file_bytes):
            pieces.append(piece)
            size += len(piece)
            if size >= _PIECE:
                await asyncio.to_thread(_write, file, md5, pieces)
                pieces, size = [], 0
        await asyncio.to_thread(_write, file, md5, pieces)
    return base64.b64encode(md5.digest()).decode()


def _write(file: BinaryIO, md5: "hashlib._Hash", pieces: list[bytes]) -> None:
    for piece in pieces:
        md5.update(piece)
        file.write(piece)


async def _pieces(store: Store, key: str, size: int) -> AsyncIterator[bytes]:
    for start in range(0, size, _PIECE):
        try:
            yield await store.get_range(key, start, min(_PIECE, size - start))
        except StorageError:
            return  # the length was announced: the client sees that the rest is missing
