"""Output that cannot act on the terminal that shows it.

Names, messages and logs are written by others. Characters that move the cursor, change earlier output, or turn the
direction of the text are shown as their codes, in the form of JSON. All that a command prints goes this way; the live
displays, which move the cursor themselves, pass the texts in them by `escaped` or `one_line`.
"""

import sys
from collections.abc import Iterable
from typing import IO, Any, cast

from steelyard_common.errors import escape


class PlainStream:
    """A stream that escapes the text written to it; all else is the stream's own."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(escape(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def escape_output() -> None:
    """Let everything that this process prints pass by `escaped`."""
    sys.stdout, sys.stderr = cast(IO[str], PlainStream(sys.stdout)), cast(IO[str], PlainStream(sys.stderr))


def terminal(stream: IO[str]) -> IO[str]:
    """Return the stream itself, for a display that moves the cursor and escapes texts on its own."""
    return stream.stream if isinstance(stream, PlainStream) else stream
