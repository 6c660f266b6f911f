"""XML of S3: what this server writes, and the two documents that clients send.

A document of a client is bounded in bytes before it comes here. It is read by expat's events: nothing is built from it
but the texts that are asked for, and a document type, with which entities would begin, is refused.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from xml.parsers import expat
from xml.sax.saxutils import escape

from steelyard.services.storage_server.faults import S3Error

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
MOST_KEYS = 1000
"""Most keys of one listing, and of one request to delete."""
MOST_PARTS = 10_000
"""Most parts of one upload."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
"""Characters that S3 writes as references, although XML 1.0 has no place for them."""


def text(name: str, content: str | int) -> str:
    """Return an element with a text."""
    return f"<{name}>{_CONTROL.sub(lambda sign: f'&#{ord(sign[0])};', escape(str(content)))}</{name}>"


def element(name: str, parts: Iterable[str]) -> str:
    """Return an element with elements."""
    return f"<{name}>{''.join(parts)}</{name}>"


def document(name: str, parts: Iterable[str], namespace: str = f' xmlns="{NAMESPACE}"') -> bytes:
    """Return a whole document."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{name}{namespace}>{"".join(parts)}</{name}>'.encode()


def error_document(error: S3Error, resource: str, request: str) -> bytes:
    """Return the answer to a request that failed; errors have no namespace."""
    texts = {"Code": error.code, "Message": error.message, "Resource": resource, "RequestId": request}
    return document("Error", [text(name, content) for name, content in texts.items()], "")


def timestamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def read_keys(data: bytes) -> tuple[list[str], bool]:
    """Return the keys to delete, and whether successes are left out of the answer. Raises S3Error."""
    items, rest = _read(data, "Delete", "Object", MOST_KEYS)
    for item in items:
        if set(item) != {"Key"}:
            raise S3Error("NotImplemented", "An object to delete is named by its key alone.")
    return [item["Key"] for item in items], rest.get("Quiet") == "true"


def read_parts(data: bytes) -> list[tuple[int, str]]:
    """Return numbers and ETags of the parts of an upload, in their order. Raises S3Error."""
    items, _ = _read(data, "CompleteMultipartUpload", "Part", MOST_PARTS)
    numbers = [item.get("PartNumber", "") for item in items]
    if not items or not all(re.fullmatch("[0-9]{1,5}", number) for number in numbers):
        raise S3Error("MalformedXML", "Each part should have a PartNumber and an ETag.")
    parts = [
        (int(number), item.get("ETag", "").strip('"')) for number, item in zip(numbers, items, strict=True)
    ]
    if any(one >= other for (one, _), (other, _) in pairwise(parts)):
        raise S3Error("InvalidPartOrder", "The parts should be in the order of their numbers.")
    return parts


class _Reader:
    """Collects the texts of elements below the root, and of those below the items."""

    def __init__(self, root: str, item: str, most: int) -> None:
        self.items: list[dict[str, str]] = []
        self.rest: dict[str, str] = {}
        self._root, self._item, self._most = root, item, most
        self._path: list[str] = []
        self._text: list[str] = []

    def start(self, name: str, _: object) -> None:
        self._path.append(name)
        self._text = []
        if self._path[0] != self._root or len(self._path) > 3:
            raise S3Error("MalformedXML", f"The document should be a {self._root}.")
        if self._path[1:] == [self._item]:
            if len(self.items) == self._most:
                raise S3Error("MalformedXML", f"There are more than {self._most} elements {self._item}.")
            self.items.append({})

    def characters(self, piece: str) -> None:
        self._text.append(piece)

    def end(self, name: str) -> None:
        content = "".join(self._text)
        if len(self._path) == 3 and self._path[1] == self._item:
            self.items[-1][name] = content
        elif len(self._path) == 2 and name != self._item:
            self.rest[name] = content
        self._path.pop()
        self._text = []

    def doctype(self, *_: object) -> None:
        raise S3Error("MalformedXML", "The document should have no document type.")


def _read(data: bytes, root: str, item: str, most: int) -> tuple[list[dict[str, str]], dict[str, str]]:
    reader, parser = _Reader(root, item, most), expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise S3Error("MalformedXML", f"The document is not XML: {error}.") from error
    return reader.items, reader.rest
