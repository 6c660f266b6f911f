"""Finds options by their words: the one that a text is, begins with, or is the only one that it names."""

import re
from dataclasses import dataclass
from functools import cached_property

from steelyard_evaluation.report.rubrics.normalisation import fold, normalise
from steelyard_evaluation.report.rubrics.plain_text import Unclear, plain

_SIGNIFICANT = re.compile(r"[0-9+#=<>^/\\%√±-]")
"""Characters that SQuAD's normalisation would drop or run together: 3.5 is not 35, C++ not C#, -5 not 5."""
_REJECTING = re.compile(
    r"\b(?:not|n't|nor|neither|except|unlike|than|instead of|wrong|incorrect)\s(?:\w+\s){0,2}\Z|n't\s(?:\w+\s){0,1}\Z",
    re.I,
)
_OUTER = " \t\n.,;:!?\"'“”‘’()[]{}"


@dataclass(frozen=True)
class OptionWords:
    """The options of one question, and the letters that stand for them."""

    options: tuple[str, ...]
    letters: str

    @cached_property
    def _literal(self) -> bool:
        """Return whether options are compared character by character, because punctuation may distinguish them."""
        keys = [normalise(option) for option in self.options]
        return any(map(_SIGNIFICANT.search, self.options)) or not all(keys) or len(set(keys)) < len(keys)

    @cached_property
    def _keys(self) -> list[str]:
        return [self._key(plain(option)) for option in self.options]

    def _key(self, text: str) -> str:
        if self._literal:
            return " ".join(text.casefold().split()).strip(_OUTER)
        return normalise(text)

    def equal(self, text: str) -> str | None:
        """Return the letter of the option that is equal to the text; None if there is none."""
        key = self._key(text)
        same = [position for position, option in enumerate(self._keys) if option == key and key]
        return self.letters[same[0]] if len(same) == 1 else None

    def may_be(self, text: str, letter: str) -> bool:
        """Return True if the text is the option of this letter, or the options are not known."""
        return not self.options or self.equal(re.sub(r"\s(?:and|or)\s*\Z", "", text)) == letter

    def option_at_start(self, text: str) -> str | Unclear | None:
        """Return the longest option that the text begins with; Unclear if "or" and another option follow."""
        key = self._key(text)
        ahead = [option for option in self._keys if option and self._positions(option, key)[:1] == [0]]
        if not ahead:
            return None
        longest = max(ahead, key=len)
        rest = key[len(longest) :].lstrip(" ,")
        if rest.startswith(("or ", "and ")) and any(
            self._positions(option, rest)[:1] for option in self._keys if option
        ):
            return Unclear(f"several options: {key[:60]}")
        return self._letter(longest)

    def find_named(self, text: str) -> str | Unclear | None:
        """Return the option that is equal to the text, or else the only one that it names without rejecting it.

        An option inside the words of another one is not named.
        """
        if (same := self.equal(text)) is not None:
            return same
        key, raw = self._key(text), " ".join(text.split())
        named = [option for option in self._keys if option and self._positions(option, key)]
        # "New York City" does not also name "New York".
        longest = [
            option for option in named if not any(option != other and option in other for other in named)
        ]
        left = [option for option in dict.fromkeys(longest) if not self._always_rejected(option, raw)]
        if len(left) > 1:
            return Unclear(f"several options: {', '.join(sorted(map(self._letter, left)))}")
        return self._letter(left[0]) if left else None

    def _always_rejected(self, option: str, raw: str) -> bool:
        """Return True if a word rejects the option wherever it is named."""
        folded = fold(raw)
        positions = self._positions(option, folded)
        return bool(positions) and all(
            _REJECTING.search(folded, max(0, position - 40), position) for position in positions
        )

    def _letter(self, key: str) -> str:
        return self.letters[self._keys.index(key)]

    def _positions(self, option: str, text: str) -> list[int]:
        """Return the positions of the option in the text as words of its own."""
        positions: list[int] = []
        position = text.find(option)
        # An answer may repeat a word without end; a hundred places are enough.
        while position >= 0 and len(positions) < 100:
            end = position + len(option)
            if not (
                _is_same_word(text[max(0, position - 2) : position][::-1], option[0])
                or _is_same_word(text[end : end + 2], option[-1])
            ):
                positions.append(position)
            position = text.find(option, position + 1)
        return positions


def _is_same_word(neighbour: str, edge: str) -> bool:
    """Return True if the characters next to an option belong to the same word or number; `neighbour` begins next to
    it."""
    if not neighbour:
        return False
    if neighbour[0].isalnum() and (edge.isalnum() or edge in "+-.%"):
        return True
    number = edge.isdigit()
    return number and (neighbour[0] in "-+/^%" or (neighbour[0] in ".," and neighbour[1:2].isdigit()))
