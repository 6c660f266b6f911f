"""The server: requests are verified first, then given to the operation that they name. All others are not implemented.

A request without a valid signature reads nothing and writes nothing. The names of operations are S3's.
"""

import asyncio
import errno
import logging
import os
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

from aiohttp import ClientPayloadError, web
from prometheus_client import CollectorRegistry, Counter

from steelyard.services.storage_server.attributes import PREFIX, etag, parse_metadata
from steelyard.services.storage_server.bodies import (
    CHECKSUMS,
    MOST_BYTES,
    MOST_DOCUMENT_BYTES,
    Digests,
    read_digests,
    read_document,
)
from steelyard.services.storage_server.documents import (
    document,
    element,
    error_document,
    read_keys,
    read_parts,
    text,
    timestamp,
)
from steelyard.services.storage_server.faults import S3Error, translate_error
from steelyard.services.storage_server.listing import PARAMETERS, list_page, read_list_request, write_page
from steelyard.services.storage_server.objects import (
    check_inside,
    open_object,
    read_object,
    read_pieces,
)
from steelyard.services.storage_server.signatures import Keys, SignedRequest, parse_query, verify
from steelyard.services.storage_server.uploads import Uploads
from steelyard_common.errors import system_words
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import StorageError

_log = logging.getLogger(__name__)
MOST_KEY_BYTES = 1024
_DELETED_AT_ONCE = 8
_SIGNING = "X-Amz-"
"""Prefix of the parameters of a presigned URL."""
_KNOWN = CHECKSUMS | {
    "x-amz-api-version",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-mode",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-user-agent",
}
"""Headers of Amazon's that are understood, or change nothing: any other one asks for more than there is."""
_CONDITIONS = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since")


@dataclass(frozen=True)
class Call:
    """A verified request to the bucket; without a key, it is about the bucket."""

    request: web.Request
    key: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    sha256: str | None
    """Signed SHA-256 of the body."""

    def digests(self, most: int = MOST_BYTES) -> Digests:
        """Return what the body has to be. Raises S3Error."""
        return read_digests(self.headers, self.sha256, most)

    async def body(self) -> AsyncIterator[bytes]:
        """The body in pieces. Raises S3Error where the client ends it early."""
        try:
            async for piece in self.request.content.iter_any():
                yield piece
        except (ClientPayloadError, ConnectionError) as error:
            raise S3Error("IncompleteBody", "The body ended early.") from error

    async def document(self) -> bytes:
        """Return a small body. Raises S3Error."""
        return await read_document(self.body(), self.digests(MOST_DOCUMENT_BYTES))


Operation = Callable[[Call], Awaitable[web.StreamResponse]]


class StorageServer:
    """Serves one bucket, which is a folder."""

    def __init__(
        self,
        store: FileStore,
        bucket: str,
        keys: Keys,
        *,
        clock: Callable[[], datetime],
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.uploads = Uploads(store)
        self._store = store
        self._bucket = bucket
        self._keys = keys
        self._clock = clock
        self._deleting = asyncio.Semaphore(_DELETED_AT_ONCE)
        self._requests = Counter(
            "steelyard_storage_requests",
            "Requests to the server of the storage folder.",
            ("operation", "code"),
            registry=registry,
        )
        self._of_bucket: Mapping[tuple[str, frozenset[str]], Operation] = {
            ("POST", frozenset(("delete",))): self.delete_objects,
        }
        self._of_objects: Mapping[tuple[str, frozenset[str]], Operation] = {
            ("GET", frozenset()): self.get_object,
            ("HEAD", frozenset()): self.get_object,
            ("PUT", frozenset()): self.put_object,
            ("DELETE", frozenset()): self.delete_object,
            ("POST", frozenset(("uploads",))): self.create_multipart_upload,
            ("PUT", frozenset(("partNumber", "uploadId"))): self.upload_part,
            ("POST", frozenset(("uploadId",))): self.complete_multipart_upload,
            ("DELETE", frozenset(("uploadId",))): self.abort_multipart_upload,
        }

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        return app

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        operation = "none"
        try:
            call = self.read_call(request)
            perform = self.find_operation(call)
            operation = perform.__name__
            response = await perform(call)
            self._requests.labels(operation, "").inc()
            return response
        except S3Error as error:
            failure = error
        except StorageError as error:
            failure = translate_error(error)
        except ConnectionError:
            raise  # the client is gone
        except OSError as error:
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            code = "ServiceUnavailable" if full else "InternalError"
            failure = S3Error(code, f"The storage failed: {system_words(error)}.")
            _log.error("%s %s: %s", request.method, request.path, error)
        self._requests.labels(operation, failure.code).inc()
        id = secrets.token_hex(8)
        body = error_document(failure, request.path, id) if request.method != "HEAD" else b""
        headers = {"x-amz-request-id": id}
        return web.Response(body=body, status=failure.status, headers=headers, content_type="application/xml")

    def read_call(self, request: web.Request) -> Call:
        """Return what a request asks for. Raises S3Error for one that is not signed, or that is for another bucket."""
        if not _is_text(request.raw_path):
            raise S3Error("InvalidURI", "The path or the query is not UTF-8.")
        path, _, query = request.raw_path.partition("?")
        pairs = parse_query(query)
        headers: dict[str, str] = {}
        for name, value in request.headers.items():
            lower = name.lower()
            if not _is_text(value):
                raise S3Error("InvalidRequest", f"The header {lower} is not UTF-8.")
            headers[lower] = f"{headers[lower]},{value}" if lower in headers else value
        sha256 = verify(SignedRequest(request.method, path, pairs, headers), self._keys, self._clock())
        bucket, key = _split(path)
        if not bucket:
            raise S3Error("NotImplemented", "A request should name the bucket in its path.")
        if bucket != self._bucket:
            raise S3Error("NoSuchBucket", "The specified bucket does not exist.")
        parameters = {
            name: value for name, value in pairs if not name.startswith(_SIGNING) and name != "x-id"
        }
        return Call(request, key, parameters, headers, sha256)

    def find_operation(self, call: Call) -> Operation:
        """Return the operation that a call names. Raises S3Error where it asks for something that there is not."""
        method, names = call.request.method, frozenset(call.parameters)
        operation = (self._of_objects if call.key else self._of_bucket).get((method, names))
        if not call.key and method == "GET" and "list-type" in names and names <= PARAMETERS:
            operation = self.list_objects
        if operation is None:
            raise S3Error("NotImplemented", "The server does not have this operation.")
        writes = operation in (self.put_object, self.create_multipart_upload)
        known = _KNOWN | ({"x-amz-copy-source"} if operation == self.put_object else set())
        strange = sorted(
            name
            for name in call.headers
            if name.startswith("x-amz-") and name not in known and not (writes and name.startswith(PREFIX))
        )
        conditional = call.headers.keys() & set(_CONDITIONS) if operation != self.get_object else set()
        if operation in (self.put_object, self.complete_multipart_upload):
            conditional -= {"if-none-match"}
        if strange or conditional or (writes and "content-encoding" in call.headers):
            names_ = ", ".join([*strange, *sorted(conditional)]) or "content-encoding"
            raise S3Error("NotImplemented", f"The server does not know these headers here: {names_}.")
        return operation

    async def get_object(self, call: Call) -> web.StreamResponse:
        """GetObject and HeadObject."""
        wanted = call.request.method == "GET"
        answer = await asyncio.to_thread(read_object, self._store, call.key, call.headers, body=wanted)
        if answer.body is not None:
            return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
        try:
            response = web.StreamResponse(status=answer.status, headers=answer.headers)
            await response.prepare(call.request)
            pieces = read_pieces(answer.opened, answer.asked)
            try:
                while piece := await asyncio.to_thread(next, pieces, b""):
                    await response.write(piece)
            except ConnectionError:
                raise
            except OSError as error:
                # Too late for another status: the client sees that bytes are missing.
                _log.error("%s: %s", call.key, error)
                if call.request.transport is not None:
                    call.request.transport.abort()
            return response
        finally:
            os.close(answer.opened.descriptor)

    async def put_object(self, call: Call) -> web.Response:
        """PutObject and CopyObject."""
        if "x-amz-copy-source" in call.headers:
            return await self.copy_object(call)
        tag = await self.uploads.put(
            call.key,
            call.body(),
            call.digests(),
            metadata=parse_metadata(call.headers),
            replace=_replaces(call),
        )
        return web.Response(headers={"ETag": f'"{tag}"'})

    async def copy_object(self, call: Call) -> web.Response:
        """CopyObject."""
        if not _replaces(call) or parse_metadata(call.headers):
            raise S3Error("NotImplemented", "A copy replaces, and has the metadata of its source.")
        source, _, version = call.headers["x-amz-copy-source"].partition("?")
        bucket, key = _split(f"/{source.removeprefix('/')}")
        if version:
            raise S3Error("NotImplemented", "Objects have no versions.")
        if bucket != self._bucket:
            raise S3Error("NoSuchBucket", "The specified bucket does not exist.")

        def check() -> None:
            os.close(open_object(self._store, key).descriptor)
            check_inside(self._store, call.key)

        await asyncio.to_thread(check)
        await self._store.copy(key, call.key)
        facts = await asyncio.to_thread(os.stat, self._store.path(call.key))
        parts = [
            text("LastModified", timestamp(datetime.fromtimestamp(facts.st_mtime, UTC))),
            text("ETag", f'"{etag(facts)}"'),
        ]
        return _xml(document("CopyObjectResult", parts))

    async def delete_object(self, call: Call) -> web.Response:
        """DeleteObject."""
        await self._delete(call.key)
        return web.Response(status=204)

    async def delete_objects(self, call: Call) -> web.Response:
        """DeleteObjects."""
        keys, quiet = await asyncio.to_thread(read_keys, await call.document())
        results = await asyncio.gather(*(self.delete_one(key) for key in keys))
        return _xml(document("DeleteResult", [xml for done, xml in results if not (done and quiet)]))

    async def delete_one(self, key: str) -> tuple[bool, str]:
        """Delete an object; return whether this succeeded, and the XML that says so."""
        try:
            await self._delete(key)
        except (S3Error, StorageError) as error:
            failure = error if isinstance(error, S3Error) else translate_error(error)
            parts = [text("Key", key), text("Code", failure.code), text("Message", failure.message)]
            return False, element("Error", parts)
        return True, element("Deleted", [text("Key", key)])

    async def list_objects(self, call: Call) -> web.Response:
        """ListObjectsV2."""
        asked = read_list_request(call.parameters)
        page = await asyncio.to_thread(list_page, self._store, asked)
        return _xml(write_page(self._bucket, asked, page))

    async def create_multipart_upload(self, call: Call) -> web.Response:
        """CreateMultipartUpload."""
        await asyncio.to_thread(check_inside, self._store, call.key)
        metadata = parse_metadata(call.headers)
        id = await asyncio.to_thread(self.uploads.begin, call.key, metadata)
        parts = [text("Bucket", self._bucket), text("Key", call.key), text("UploadId", id)]
        return _xml(document("InitiateMultipartUploadResult", parts))

    async def upload_part(self, call: Call) -> web.Response:
        """UploadPart."""
        number = call.parameters["partNumber"]
        tag = await self.uploads.add(
            call.parameters["uploadId"],
            call.key,
            int(number) if number.isascii() and number.isdecimal() and len(number) < 6 else 0,
            call.body(),
            call.digests(),
        )
        return web.Response(headers={"ETag": f'"{tag}"'})

    async def complete_multipart_upload(self, call: Call) -> web.Response:
        """CompleteMultipartUpload."""
        parts = await asyncio.to_thread(read_parts, await call.document())
        await asyncio.to_thread(check_inside, self._store, call.key)
        tag = await self.uploads.complete(
            call.parameters["uploadId"], call.key, parts, replace=_replaces(call)
        )
        texts = {"Bucket": self._bucket, "Key": call.key, "ETag": f'"{tag}"'}
        return _xml(
            document("CompleteMultipartUploadResult", [text(name, value) for name, value in texts.items()])
        )

    async def abort_multipart_upload(self, call: Call) -> web.Response:
        """AbortMultipartUpload."""
        await asyncio.to_thread(self.uploads.abort, call.parameters["uploadId"], call.key)
        return web.Response(status=204)

    async def _delete(self, key: str) -> None:
        await asyncio.to_thread(check_inside, self._store, key)
        async with self._deleting:
            await self._store.delete(key)


def _is_text(value: str) -> bool:
    """Return whether a value is UTF-8; aiohttp reads any other byte as half of a pair, which nothing can encode."""
    return re.search("[\ud800-\udfff]", value) is None


def _split(path: str) -> tuple[str, str]:
    """Return bucket and key of a path. Raises S3Error."""
    if not path.startswith("/"):
        raise S3Error("InvalidURI", "The path should begin with a /.")
    try:
        bucket, _, key = unquote(path[1:], errors="strict").partition("/")
    except UnicodeDecodeError as error:
        raise S3Error("InvalidURI", "The path is not UTF-8.") from error
    if len(key.encode()) > MOST_KEY_BYTES:
        raise S3Error("KeyTooLongError", f"The key has more than {MOST_KEY_BYTES} bytes.")
    return bucket, key


def _replaces(call: Call) -> bool:
    """Return whether a write replaces an object that is there. Raises S3Error."""
    condition = call.headers.get("if-none-match")
    if condition not in {None, "*"}:
        raise S3Error("NotImplemented", "A write is conditional on there being no object (*), or not at all.")
    return condition is None


def _xml(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/xml")
