"""Texts made comparable: SQuAD's normalisation, and the words of a text.

Unicode first: NFKC makes one of what looks alike (full-width letters, ligatures, ½), and case is folded.
"""

import re
import unicodedata

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")  # in Python's string.punctuation, so in SQuAD's; not in Unicode's P


class _NoPunctuation(dict[int, int | None]):
    """Table for str.translate that drops punctuation and looks each character up once."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        drop = unicodedata.category(character)[0] == "P" or character in _ASCII_SYMBOLS
        self[code] = None if drop else code
        return self[code]


class _OnlyWords(dict[int, int]):
    """Table for str.translate that keeps letters, marks and digits; all else separates words."""

    def __missing__(self, code: int) -> int:
        self[code] = code if unicodedata.category(chr(code))[0] in "LMN" else 0x20
        return self[code]


_NO_PUNCTUATION = _NoPunctuation()
_ONLY_WORDS = _OnlyWords()


def folded(text: str) -> str:
    """NFKC and case folding."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def normalised(text: str) -> str:
    """The text as SQuAD compares it: case folded, punctuation and English articles dropped, white space single."""
    bare = folded(text).translate(_NO_PUNCTUATION)
    if not bare.isascii():  # a mark that stood after punctuation now joins the letter before it
        bare = unicodedata.normalize("NFKC", bare)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def words(text: str) -> list[str]:
    """Runs of letters, marks and digits, case folded."""
    return folded(text).translate(_ONLY_WORDS).split()
