"""TOML of people, read within bounds that are checked before anything is made of it.

The parser calls itself for each level of lists, and needs a time that grows with the square of a key's parts. Whatever
is wrong with a text is one error with one line. Every reader of TOML reads by it.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

BYTES = 1 << 20
"""Most bytes of a file."""
DEPTH = 64
"""Most levels of lists and inline tables, and most parts of a key."""
# Of a text without an end the rest is one match: what began at each of its quotes would be read to the end. A
# possessive group that fails halfway matches nothing before Python 3.11.4.
_MARKS = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*(?:"{3,5})?|'
    r"'''(?:[^']++|'(?!''))*(?:'{3,5})?|"
    r'"(?:[^"\\\n]++|\\.)*+"?|'
    r"'[^'\n]*+'?|"
    r"\#[^\n]*+|"
    r"[\[\]{}.=,\n]",
    re.DOTALL,
)


class BadToml(ValueError):
    """A text that is not TOML, or that has more bytes or levels than its reader takes."""


def read(path: Path) -> str:
    """Return the text of a file. Raises BadToml for one that is too long or no UTF-8, OSError."""
    with path.open("rb") as file:
        content = file.read(BYTES + 1)
    if len(content) > BYTES:
        raise BadToml(f"has more than {BYTES} bytes")
    try:
        return content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadToml(f"is not UTF-8: {error.reason} at byte {error.start}") from error


def load(text: str) -> dict[str, Any]:
    """Return the tables of a text. Raises BadToml."""
    if len(text) > BYTES:
        raise BadToml(f"has more than {BYTES} bytes")
    _check_depth(text)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # a number of too many digits raises one that is no TOMLDecodeError
        raise BadToml(str(error)) from error


def _check_depth(text: str) -> None:
    opened = parts = 0
    for match in _MARKS.finditer(text):
        mark = match[0]
        if mark in ("[", "{"):
            opened, parts = opened + 1, 0
        elif mark in ("]", "}"):
            opened, parts = max(opened - 1, 0), 0
        elif mark == ".":
            parts += 1
        elif mark in ("=", ",", "\n"):
            parts = 0
        if opened > DEPTH or parts >= DEPTH:
            line = text.count("\n", 0, match.start()) + 1
            raise BadToml(f"line {line}: more than {DEPTH} levels of lists and tables, or parts of a key")
