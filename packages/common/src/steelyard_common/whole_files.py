"""Files of strangers that are read as a whole: no more bytes, and no more values of JSON, than a limit known before.

A byte of JSON can be a hundred bytes once it is a value of Python: values are counted before one of them is made.
"""

import os
import re
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue

DOCUMENT_BYTES = 32 << 20
"""Most bytes of a page, and of a document: numbers of a report, a manifest, an attestation."""
VALUES, PARTS = 5_000_000, 250_000
"""Most values of a document of JSON, and most lists and objects, which take more memory. The matrix of 2,000 labels
has four million numbers."""


class _Mark(IntEnum):
    COMMA, QUOTE = ord(","), ord('"')


# Of a text without an end the rest is one match: what began at each of its quotes would be read to the end.
_MARKS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[,\[{]', re.DOTALL)


class TooLarge(UsageError):
    """The file is larger than its reader takes, or stands for more."""


def read_whole(source: Path | BinaryIO, most: int = DOCUMENT_BYTES) -> bytes:
    """Return the content of a file. Raises TooLarge, OSError."""
    if isinstance(source, Path):
        try:
            with source.open("rb") as file:
                if os.fstat(file.fileno()).st_size > most:
                    raise _too_many_bytes(most)
                return read_whole(file, most)
        except TooLarge as error:
            raise TooLarge(f"{source}: {error}") from error
    # The size that a file declares may be wrong, and a pipe has none.
    content = source.read(most + 1)
    if len(content) > most:
        raise _too_many_bytes(most)
    return content


def _too_many_bytes(most: int) -> TooLarge:
    return TooLarge(f"has more than {most} bytes, which are allowed")


def parse_json(content: bytes, values: int = VALUES, parts: int = PARTS) -> JsonValue:
    """Return the value of a JSON text. Raises TooLarge, orjson.JSONDecodeError."""
    import orjson  # the client counts values too, and starts without it

    check_values(content, values, parts)
    return orjson.loads(content)


def check_values(content: bytes, values: int = VALUES, parts: int = PARTS) -> None:
    """Raise TooLarge for a JSON text of more values, or of more lists and objects."""
    # Commas and brackets count for nothing within texts, which seldom have that many.
    brackets = content.count(b"[") + content.count(b"{")
    if brackets <= parts and brackets + content.count(b",") <= values:
        return
    commas = brackets = texts = 0
    for mark in _MARKS.finditer(content):
        match content[mark.start()]:
            case _Mark.QUOTE:
                texts += 1
            case _Mark.COMMA:
                commas += 1
            case _:
                brackets += 1
        if brackets > parts:
            raise TooLarge(f"has more than {parts} lists and objects, which are allowed")
        # Each value has one text at most, and its key: there are no more texts in JSON.
        if brackets + commas > values or texts > 2 * values + 1:
            raise TooLarge(f"has more than {values} values, which are allowed")
