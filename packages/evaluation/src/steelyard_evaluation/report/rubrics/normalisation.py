"""Normalisation of texts for comparison: SQuAD's, and the words of a text.

First comes Unicode's NFKC, which unifies similar characters (full-width letters, ligatures, ½), then the case
is folded.
"""

import re
import unicodedata

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")  # in Python's string.punctuation, so in SQuAD's; not in Unicode's P


class _NoPunctuation(dict[int, int | None]):
    """Table for str.translate that drops punctuation and classifies each character once."""

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


def fold(text: str) -> str:
    """Return the text in NFKC with its case folded."""
    if text.isascii():
        return text.lower()
    # Twice: folding the case may take a text out of NFKC again (Unicode, section 3.13).
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def normalise(text: str) -> str:
    """Return the text as SQuAD compares it: case folded, no punctuation, no English articles, single spaces."""
    bare = fold(text).translate(_NO_PUNCTUATION)
    if not bare.isascii():  # a mark that stood after punctuation now joins the letter before it
        bare = unicodedata.normalize("NFKC", bare)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def normal_form(text: str) -> str:
    """Return the text normalised, or, if nothing is left of it (`the`, `!`), with its case folded."""
    return normalise(text) or fold(text.strip())


def words(text: str) -> list[str]:
    """Return the words: runs of letters, marks and digits, case folded."""
    return fold(text).translate(_ONLY_WORDS).split()
