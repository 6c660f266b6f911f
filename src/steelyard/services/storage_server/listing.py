"""ListObjectsV2: pages of the keys of a folder, in their order, whole or by folders."""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

from steelyard.services.storage_server.attributes import etag
from steelyard.services.storage_server.documents import MOST_KEYS, document, element, text, timestamp
from steelyard.services.storage_server.faults import S3Error
from steelyard.services.storage_server.objects import is_inside
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.folder_walk import walk

PARAMETERS = frozenset(
    ("list-type", "prefix", "delimiter", "max-keys", "continuation-token", "start-after", "encoding-type")
)


@dataclass(frozen=True)
class ListRequest:
    """One page of a listing, as a client asks for it."""

    prefix: str
    delimiter: str
    most: int
    after: str
    """The last key or folder of the page before."""
    start_after: str
    escaped: bool
    """True if keys are written with escapes of URLs."""
    token: str | None
    """Token that the client sent."""


@dataclass
class Page:
    """Entries of one page: texts of XML, in order."""

    entries: list[str] = field(default_factory=list)
    last: str = ""
    """The last key or folder."""
    truncated: bool = False


def read_list_request(parameters: Mapping[str, str]) -> ListRequest:
    """Raises S3Error."""
    if parameters["list-type"] != "2":
        raise S3Error("InvalidArgument", "list-type should be 2.")
    delimiter, most = parameters.get("delimiter", ""), parameters.get("max-keys", str(MOST_KEYS))
    if delimiter not in {"", "/"}:
        raise S3Error("NotImplemented", "A delimiter other than / is not supported.")
    if not re.fullmatch("[0-9]{1,9}", most):
        raise S3Error("InvalidArgument", "max-keys should be a number.")
    if parameters.get("encoding-type", "url") != "url":
        raise S3Error("InvalidArgument", "encoding-type should be url.")
    token = parameters.get("continuation-token")
    try:
        after = base64.b64decode(token or "", altchars=b"-_", validate=True).decode()
    except ValueError as error:
        raise S3Error("InvalidArgument", "The continuation token is not one of this server.") from error
    return ListRequest(
        parameters.get("prefix", ""),
        delimiter,
        min(int(most), MOST_KEYS),
        after,
        parameters.get("start-after", ""),
        "encoding-type" in parameters,
        token,
    )


def list_page(store: FileStore, request: ListRequest) -> Page:
    """Return a page; blocks. Raises S3Error for a prefix that leads out of the folder, OSError."""
    folder = request.prefix.rpartition("/")[0]
    if "\0" in folder or not is_inside(store, os.path.realpath(store.root / folder)):
        raise S3Error("AccessDenied", "The prefix leads out of the storage.")
    page = Page()
    after = max(request.after, request.start_after)
    for key in walk(store.root, request.prefix, after, flat=bool(request.delimiter)):
        entry = describe(store, key, request)
        if entry is None:
            continue
        if len(page.entries) == request.most:
            page.truncated = request.most > 0
            break
        page.entries.append(entry)
        page.last = key
    return page


def write_page(bucket: str, request: ListRequest, page: Page) -> bytes:
    """Return the answer with a page."""
    parts = [
        text("Name", bucket),
        text("Prefix", _escape(request.prefix, request)),
        text("MaxKeys", request.most),
        text("KeyCount", len(page.entries)),
        text("IsTruncated", "true" if page.truncated else "false"),
    ]
    if request.delimiter:
        parts.append(text("Delimiter", request.delimiter))
    if request.escaped:
        parts.append(text("EncodingType", "url"))
    if request.start_after:
        parts.append(text("StartAfter", _escape(request.start_after, request)))
    if request.token is not None:
        parts.append(text("ContinuationToken", request.token))
    if page.truncated:
        token = base64.urlsafe_b64encode(page.last.encode()).decode()
        parts.append(text("NextContinuationToken", token))
    return document("ListBucketResult", [*parts, *page.entries])


def describe(store: FileStore, key: str, request: ListRequest) -> str | None:
    """Return the XML of a key or a folder; None for an object that went away, or that no client could name."""
    try:
        key.encode()
        if key.endswith("/"):
            return element("CommonPrefixes", [text("Prefix", _escape(key, request))])
        facts = (store.root / key).stat()
    except (FileNotFoundError, UnicodeEncodeError):
        return None
    written = datetime.fromtimestamp(facts.st_mtime, UTC)
    parts = [
        text("Key", _escape(key, request)),
        text("LastModified", timestamp(written)),
        text("ETag", f'"{etag(facts)}"'),
        text("Size", facts.st_size),
        text("StorageClass", "STANDARD"),
    ]
    return element("Contents", parts)


def _escape(key: str, request: ListRequest) -> str:
    return quote(key) if request.escaped else key
