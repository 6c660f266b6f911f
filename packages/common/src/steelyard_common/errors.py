"""The root of the errors that a user is meant to read: one line that says what is wrong and what would be right.

Also whose fault an error is, an engine's or its input's: consumers end for the first and put aside one record for the
second. The border of each engine decides it, where the cause is still known.

And the form in which texts of others stand in messages: with nothing in them that acts on a terminal.
"""

import errno
import os
import re
from collections.abc import Iterator

_ACTING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and newline
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # directions, invisible ones, line ends
    "\ud800-\udfff"  # halves of a pair, which no terminal can take
    "\U000e0000-\U000e007f"  # invisible copies of ASCII
)
_FINDING = re.compile(f"(?!\r\n)[{_ACTING}]")
_LINE_ENDS = str.maketrans({"\n": "\\n", "\t": "\\t", "\r": "\\r"})


def escape(text: str) -> str:
    """Return the text with each character that acts on a terminal as its code."""
    return _FINDING.sub(_code, text) if not text.isascii() or not text.isprintable() else text


def one_line(text: str) -> str:
    """Return the text in one line, with each character that acts on a terminal as its code."""
    return escape(text.translate(_LINE_ENDS))


def _code(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number < 0x10000:
        return f"\\u{number:04x}"
    return f"\\u{0xD800 + (number - 0x10000 >> 10):04x}\\u{0xDC00 + (number - 0x10000 & 0x3FF):04x}"


class SteelyardError(Exception):
    """A failure with a message for the user; `exit_code` is what the command line exits with.

    Messages carry names and values of others: in no traceback does one of these act on the terminal.
    """

    exit_code = 1

    def __str__(self) -> str:
        return escape(super().__str__())


class EngineError(Exception):
    """Base of what an engine (log, view, accounts, storage) raises when it fails or must not be used: no single record
    is to blame, and a process that meets it ends or waits.
    """


class ContentError(EngineError):
    """Base of an engine's refusals of what it was given, while the engine itself is well."""


def is_engine_failure(error: BaseException) -> bool:
    """Return whether an engine has failed. Anything else that a step raises is the fault of the record it worked on.

    An OSError that no border has translated comes from the machine: a disk, a socket, a descriptor.
    """
    return isinstance(error, EngineError | OSError) and not isinstance(error, ContentError)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a group holds, and those of the groups in it, in their order; any other error itself.

    The first error of a task group is the one that ended its other tasks.
    """
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from leaves(member)
    else:
        yield error


class Refused(SteelyardError, EngineError):
    """A file or an engine is not what it should be, and a person has to decide: a new start alone helps nothing."""

    exit_code = 3


class UsageError(SteelyardError):
    """A request of the user that cannot be fulfilled as it stands."""

    exit_code = 2


def system_words(error: OSError) -> str:
    """Return an error of the system in its own words.

    asyncio's texts name the address once more. An error of theirs, or of a lookup, may have no
    number of the system.
    """
    if error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return error.strerror or str(error)


_OF_A_FILE = frozenset(
    {errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EPERM, errno.EROFS}
)
"""Errors of the system that a file's owner can mend; others may be faults of ours."""


def words_of_file_error(error: OSError) -> str | None:
    """Return an error of the system in a line that names the file and what to do; None where it is of another kind."""
    path = error.filename2 or error.filename
    if path is None or error.errno not in _OF_A_FILE:
        return None
    name = path.decode(errors="replace") if isinstance(path, bytes) else path
    return f"{name}: {error.strerror}; it has to be what it was made as, and this user has to be able to write it"
