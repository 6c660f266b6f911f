"""Uploads of blobs: in chunks, which may be resumed after an interruption, and verified by digest at the end.

Each chunk is an object of its own, named by where it begins and written only once. So a chunk counts only when it is
durable, every API process knows how far an upload is, and of two chunks for the same place one is refused. A note says
how far the upload is at least, so that not all chunks are listed for each of them: from there on they are looked up one
by one.
"""

import asyncio
import hashlib
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import orjson
from starlette.responses import Response

from steelyard.api import spool
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import ApiError, TooLarge, Unavailable
from steelyard.api.registry.errors import (
    ContentChanged,
    DigestInvalid,
    SizeInvalid,
    TooMany,
    UploadInvalid,
    UploadUnknown,
)
from steelyard.api.registry.ranges import chunk_range
from steelyard.api.registry.repository import Repository, hex_digits, readable_other, writable
from steelyard_evaluation.storage.checked import DigestMismatch, check_object
from steelyard_evaluation.storage.store import ObjectExists, ObjectInfo, ObjectMissing, StorageFull

MOST_UPLOADS = 100
"""Maximum unfinished uploads of a repository."""
MOST_CHUNKS = 10_000
"""Maximum chunks of an upload."""
_PIECE_BYTES = 4 << 20
_ID = re.compile(r"[0-9a-f]{32}")
_REPOSITORY = "artifacts/"


@dataclass(frozen=True)
class Extent:
    """Bytes and chunks of an upload."""

    end: int = 0
    chunks: int = 0


async def begin(context: RequestContext) -> Response:
    """A new upload; with `mount` the blob of another artifact, with `digest` the blob of the body."""
    repository = await writable(context)
    mounted = await _try_mount(context, repository)
    if mounted is not None:
        return mounted
    digest = context.query.get("digest")
    if digest is not None:
        hex_digits(digest)
    if len(await repository.list_uploads()) >= MOST_UPLOADS:
        raise TooMany(f"the artifact has {MOST_UPLOADS} unfinished uploads: finish or cancel one of them")
    upload = context.api.platform.new_id()
    await repository.store.create(repository.upload_mark(upload), b"")
    if digest is None:
        return _progress(repository, upload, 0, 202)
    await _append(context, repository, upload, Extent())
    return await _finish(context, repository, upload, digest)


async def progress(context: RequestContext) -> Response:
    """No content; `Range` says how far an upload is, and the next chunk begins there."""
    repository = await writable(context)
    upload, extent = await _upload(context, repository)
    return _progress(repository, upload, extent.end, 204)


async def append(context: RequestContext) -> Response:
    """The next chunk of an upload, durable."""
    repository = await writable(context)
    upload, extent = await _upload(context, repository)
    return _progress(repository, upload, await _append(context, repository, upload, extent), 202)


async def finish(context: RequestContext) -> Response:
    """The blob, verified and durable; the body may be its last chunk."""
    repository = await writable(context)
    digest = context.query.get("digest", "")
    hex_digits(digest)
    upload, extent = await _upload(context, repository)
    await _append(context, repository, upload, extent)
    return await _finish(context, repository, upload, digest)


async def cancel(context: RequestContext) -> Response:
    """No content: the upload is gone."""
    repository = await writable(context)
    upload, _ = await _upload(context, repository)
    await _discard(repository, upload)
    return Response(status_code=204)


def _blob_created(repository: Repository, digest: str) -> Response:
    headers = {"Location": f"{repository.path}/blobs/{digest}", "Docker-Content-Digest": digest}
    return Response(status_code=201, headers=headers)


async def _try_mount(context: RequestContext, repository: Repository) -> Response | None:
    """Return the answer to a mount; None if the blob has to be uploaded after all, as the specification says."""
    digest, source = context.query.get("mount"), context.query.get("from", "")
    if digest is None or not source.startswith(_REPOSITORY):
        return None
    target = repository.blob(digest)
    try:
        other = await readable_other(context, source.removeprefix(_REPOSITORY))
    except ApiError:
        return None  # the caller learns nothing of an artifact that it may not read
    key = other.blob(digest)
    if not await other.holds_blob(digest):
        return None
    if await repository.is_sealed_with(target):
        return _blob_created(repository, digest)
    await repository.check_open()
    try:
        await check_object(repository.store, key, hex_digits(digest))
        await repository.store.copy(key, target)
    except DigestMismatch as error:
        raise ContentChanged(f"mount: the stored blob is not that of its digest: {error.public}") from error
    except ObjectMissing:
        return None  # it was deleted, and the other artifact finalized, since
    await repository.restore_blob(digest)
    await repository.check_kept()
    return _blob_created(repository, digest)


async def _upload(context: RequestContext, repository: Repository) -> tuple[str, Extent]:
    """Return the path's upload, and how far it is. Raises UploadUnknown."""
    upload = context.values["upload"]
    if not _ID.fullmatch(upload):
        raise UploadUnknown("there is no such upload")
    await _check_begun(repository, upload)
    extent = await _read_notes(repository, upload)
    # The note is written after its chunk: a crash between the two, or a slower request, leaves an older one.
    while (size := await repository.find_size(_chunk(repository, upload, extent.end))) is not None:
        extent = Extent(extent.end + size, extent.chunks + 1)
    return upload, extent


async def _read_notes(repository: Repository, upload: str) -> Extent:
    """Return the notes of an upload; without a note, no chunk counts before it is found."""
    try:
        return Extent(**orjson.loads(await repository.store.get(repository.extent(upload))))
    except ObjectMissing:
        return Extent()


def _chunk(repository: Repository, upload: str, start: int) -> str:
    return f"{repository.chunks(upload)}{start:020}"


async def _append(context: RequestContext, repository: Repository, upload: str, extent: Extent) -> int:
    """Store the body as the next chunk; returns where the upload ends then."""
    end, announced = extent.end, chunk_range(context.headers.get("content-range"))
    if announced is not None and announced.start != end:
        headers = {"Range": _range(end), "Location": _location(repository, upload)}
        raise UploadInvalid(f"Content-Range: the next chunk should begin at byte {end}", headers=headers)
    with _spool(context) as folder:
        path = Path(folder, "chunk")
        size = await _receive(context, path, context.api.platform.settings.file_bytes - end)
        if announced is not None and size != len(announced):
            raise SizeInvalid(f"Content-Range: announces {len(announced)} bytes, and the body has {size}")
        if size:
            if extent.chunks >= MOST_CHUNKS:
                raise TooMany(f"the upload has {MOST_CHUNKS} chunks: begin anew, with larger ones")
            try:
                await repository.store.create_file(_chunk(repository, upload, end), path)
            except ObjectExists as error:
                raise UploadInvalid("another chunk was uploaded for the same place") from error
            except StorageFull as error:
                raise Unavailable(f"the storage is full: {error}", retry_after=60) from error
            # Apart from the mark of the beginning: a note that is written late must not bring an ended upload back.
            note = orjson.dumps(Extent(end + size, extent.chunks + 1))
            await repository.store.put(repository.extent(upload), note)
    return end + size


async def _receive(context: RequestContext, path: Path, limit: int) -> int:
    size = 0
    with await asyncio.to_thread(path.open, "wb") as file:
        async for piece in context.stream(limit):
            await asyncio.to_thread(file.write, piece)
            size += len(piece)
    return size


async def _finish(context: RequestContext, repository: Repository, upload: str, digest: str) -> Response:
    """Verify the chunks together, and keep them as a blob."""
    chunks = await _chunks(repository, upload)
    if sum(chunk.size for chunk in chunks) > context.api.platform.settings.file_bytes:
        raise TooLarge("the blob is larger than the setting api.file_bytes")
    with _spool(context) as folder:
        path = Path(folder, "blob")
        joined = await _join(repository, chunks, path)
        if joined != digest:
            await _discard(repository, upload)
            raise DigestInvalid(f"digest: is {digest}, and the content has {joined}; begin the upload anew")
        if await repository.is_sealed_with(repository.blob(digest)):
            await _discard(repository, upload)
            return _blob_created(repository, digest)
        await repository.check_open()
        try:
            await repository.store.put_file(repository.blob(digest), path)
            await repository.restore_blob(digest)
        except StorageFull as error:
            raise Unavailable(f"the storage is full: {error}", retry_after=60) from error
        await repository.check_kept()
    await _discard(repository, upload)
    return _blob_created(repository, digest)


async def _check_begun(repository: Repository, upload: str) -> None:
    """Raise UploadUnknown for an upload that was not begun, or has ended."""
    if not await repository.has(repository.upload_mark(upload)):
        raise UploadUnknown(f"there is no upload {upload}")


async def _chunks(repository: Repository, upload: str) -> list[ObjectInfo]:
    """Return the chunks in their order. Raises UploadUnknown."""
    await _check_begun(repository, upload)
    return [info async for info in repository.store.list(repository.chunks(upload))]


async def _join(repository: Repository, chunks: list[ObjectInfo], path: Path) -> str:
    """Write the chunks one after the other into a file; returns their digest."""
    sha256 = hashlib.sha256()
    with await asyncio.to_thread(path.open, "wb") as file:
        for chunk in chunks:
            for start in range(0, chunk.size, _PIECE_BYTES):
                length = min(_PIECE_BYTES, chunk.size - start)
                piece = await repository.store.get_range(chunk.key, start, length)
                await asyncio.to_thread(sha256.update, piece)
                await asyncio.to_thread(file.write, piece)
    return f"sha256:{sha256.hexdigest()}"


async def _discard(repository: Repository, upload: str) -> None:
    """Remove an upload. The mark of its beginning goes first: without it, nothing else of it counts."""
    await repository.store.delete(repository.upload_mark(upload))
    await repository.store.delete(repository.extent(upload))
    for info in [info async for info in repository.store.list(repository.chunks(upload))]:
        await repository.store.delete(info.key)


def _spool(context: RequestContext) -> AbstractContextManager[str]:
    return spool.make_folder(context.api.platform.settings, "steelyard-registry-")


def _progress(repository: Repository, upload: str, end: int, status: int) -> Response:
    headers = {
        "Location": _location(repository, upload),
        "Range": _range(end),
        "Docker-Upload-UUID": upload,
    }
    return Response(status_code=status, headers=headers)


def _location(repository: Repository, upload: str) -> str:
    return f"{repository.path}/blobs/uploads/{upload}"


def _range(end: int) -> str:
    return f"0-{max(end - 1, 0)}"
