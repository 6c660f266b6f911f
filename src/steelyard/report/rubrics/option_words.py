"""Options by their words: which one a text is, begins with, or is the only one that it names."""

import re
from dataclasses import dataclass
from functools import cached_property

from steelyard.report.rubrics import words
from steelyard.report.rubrics.written import Unclear, plain

_MEANT = re.compile(r"[0-9+#=<>^/\\%√±-]")
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
        """Options are compared to the character where punctuation may be what tells them apart."""
        keys = [words.normalised(option) for option in self.options]
        return any(map(_MEANT.search, self.options)) or not all(keys) or len(set(keys)) < len(keys)

    @cached_property
    def _keys(self) -> list[str]:
        return [self._key(plain(option)) for option in self.options]

    def _key(self, text: str) -> str:
        if self._literal:
            return " ".join(text.casefold().split()).strip(_OUTER)
        return words.normalised(text)

    def equal(self, text: str) -> str | None:
        """The option that the text is."""
        key = self._key(text)
        same = [place for place, option in enumerate(self._keys) if option == key and key]
        return self.letters[same[0]] if len(same) == 1 else None

    def may_be(self, text: str, letter: str) -> bool:
        """The text is the option of this letter, or nobody knows what the option is."""
        return not self.options or self.equal(re.sub(r"\s(?:and|or)\s*\Z", "", text)) == letter

    def begins(self, text: str) -> str | Unclear | None:
        """The option that the text begins with: the longest one. With "or" and another one behind it, several are."""
        key = self._key(text)
        ahead = [option for option in self._keys if option and self._places(option, key)[:1] == [0]]
        if not ahead:
            return None
        longest = max(ahead, key=len)
        rest = key[len(longest) :].lstrip(" ,")
        if rest.startswith(("or ", "and ")) and any(
            self._places(option, rest)[:1] for option in self._keys if option
        ):
            return Unclear(f"several options: {key[:60]}")
        return self._letter(longest)

    def named_in(self, text: str) -> str | Unclear | None:
        """The option that the text is, or else the only one that it names without rejecting it; one inside another's
        name is not named.
        """
        if (same := self.equal(text)) is not None:
            return same
        key, raw = self._key(text), " ".join(text.split())
        named = [option for option in self._keys if option and self._places(option, key)]
        longest = [
            option for option in named if not any(option != other and option in other for other in named)
        ]
        left = [option for option in dict.fromkeys(longest) if not self._always_rejected(option, raw)]
        if len(left) > 1:
            return Unclear(f"several options: {', '.join(sorted(map(self._letter, left)))}")
        return self._letter(left[0]) if left else None

    def _always_rejected(self, option: str, raw: str) -> bool:
        """Every time that the option is named, a word before it rejects it."""
        folded = words.folded(raw)
        places = self._places(option, folded)
        return bool(places) and all(_REJECTING.search(folded, max(0, place - 40), place) for place in places)

    def _letter(self, key: str) -> str:
        return self.letters[self._keys.index(key)]

    def _places(self, option: str, text: str) -> list[int]:
        """The places where the option stands in the text as words of its own."""
        places: list[int] = []
        place = text.find(option)
        while place >= 0 and len(places) < 100:
            end = place + len(option)
            if not (
                _joined(text[max(0, place - 2) : place][::-1], option[0])
                or _joined(text[end : end + 2], option[-1])
            ):
                places.append(place)
            place = text.find(option, place + 1)
        return places


def _joined(beside: str, edge: str) -> bool:
    """The characters beside the option are part of the same word or number. `beside` begins next to the option."""
    if not beside:
        return False
    if beside[0].isalnum() and (edge.isalnum() or edge in "+-.%"):
        return True
    number = edge.isdigit()
    return number and (beside[0] in "-+/^%" or (beside[0] in ".," and beside[1:2].isdigit()))
