"""Regular expressions that users write, matched within a time and a size that are known before.

Python's own `re` goes back over a text as often as a pattern makes it, which can take years, and cannot be stopped. The
library `regex` reads the same patterns and stops in time. Where a pattern finds more than there is room for, matching
ends as soon as that is known.
"""

import re
from collections.abc import Iterator
from typing import Any

import regex

PATTERN_CHARACTERS = 4096
"""Characters of a pattern: none that a person wrote is longer."""
SECONDS = 2.0
"""Seconds for one pattern and one text."""
FOUND_CHARACTERS = 16 << 20
"""Characters that one pattern finds, or makes, of one text."""
_FLAGS = {
    re.ASCII: regex.ASCII,
    re.IGNORECASE: regex.IGNORECASE,
    re.MULTILINE: regex.MULTILINE,
    re.DOTALL: regex.DOTALL,
    re.VERBOSE: regex.VERBOSE,
    re.UNICODE: regex.UNICODE,
}


class PatternTooMuch(ValueError):
    """A pattern needs more time, or finds more, than is allowed."""


class Pattern:
    """One compiled pattern. Raises ValueError for any other text."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        if len(pattern) > PATTERN_CHARACTERS:
            raise ValueError(f"the pattern has {len(pattern)} characters; {PATTERN_CHARACTERS} are allowed")
        known = sum(_FLAGS)
        if flags & ~known:
            raise ValueError(f"flags: {flags & ~known} is not a flag of a pattern")
        self.pattern = pattern
        ours = sum(ours for python, ours in _FLAGS.items() if flags & python)
        try:
            self._compiled: Any = regex.compile(pattern, ours | regex.VERSION0)
        except regex.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        except RecursionError:
            raise ValueError("the pattern is nested too deep") from None

    @property
    def groups(self) -> frozenset[str]:
        """The names of its groups."""
        return frozenset(self._compiled.groupindex)

    def search(self, text: str) -> "re.Match[str] | None":
        """Return the first match. Raises PatternTooMuch."""
        try:
            return self._compiled.search(text, timeout=SECONDS, concurrent=False)  # type: ignore[no-any-return]
        except TimeoutError:
            raise self._too_slow() from None

    def find(self, text: str) -> "Iterator[re.Match[str]]":
        """Yield all matches. Raises PatternTooMuch."""
        try:
            yield from self._compiled.finditer(text, timeout=SECONDS, concurrent=False)
        except TimeoutError:
            raise self._too_slow() from None

    def findall(self, text: str) -> list[Any]:
        """Return what `re.findall` returns. Raises PatternTooMuch."""
        texts: list[Any] = []
        room = FOUND_CHARACTERS
        for match in self.find(text):
            groups = match.groups("")
            texts.append(match[0] if not groups else groups[0] if len(groups) == 1 else groups)
            room = self._less(room, sum(map(len, groups)) if groups else len(match[0]))
        return texts

    def split(self, text: str, most: int = 0) -> list[str | None]:
        """Return what `re.split` returns. Raises PatternTooMuch."""
        parts: list[str | None] = []
        room, end = FOUND_CHARACTERS, 0
        for number, match in enumerate(self.find(text), 1):
            if most < 0:
                break
            parts += [text[end : match.start()], *match.groups()]
            room = self._less(room, sum(len(group or "") for group in match.groups()) + 1)
            end = match.end()
            if number == most:
                break
        return [*parts, text[end:]]

    def sub(self, replacement: str, text: str, most: int = 0) -> str:
        """Return what `re.sub` returns for a text as replacement. Raises PatternTooMuch."""
        parts: list[str] = []
        escapes = replacement.count("\\")
        room, end = FOUND_CHARACTERS, 0
        for number, match in enumerate(self.find(text), 1):
            if most < 0:
                break
            # A group may stand in the replacement as often as that has characters.
            room = self._less(room, len(replacement) + escapes * len(match[0]))
            # Without one it stands for itself, and need not be read again for each match.
            parts += [text[end : match.start()], match.expand(replacement) if escapes else replacement]
            end = match.end()
            if number == most:
                break
        return "".join([*parts, text[end:]])

    def _too_slow(self) -> PatternTooMuch:
        return PatternTooMuch(
            f"the pattern {self.pattern[:100]!r} needs more than {SECONDS:g} s for one text"
        )

    def _less(self, room: int, size: int) -> int:
        if size + 1 > room:
            raise PatternTooMuch(
                f"the pattern {self.pattern[:100]!r} finds more than {FOUND_CHARACTERS} characters in one text"
            )
        return room - size - 1
