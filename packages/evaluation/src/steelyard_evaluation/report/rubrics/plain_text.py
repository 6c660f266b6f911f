r"""Answers as plain text: Markdown, HTML, LaTeX and typography are removed before an answer is read.

`choice` and `numeric` read answers through `plain`, so that `**B**`, `$\text{B}$` and `B` are one answer. Every
pattern here takes time linear in the text.
"""

import re
import unicodedata
from dataclasses import dataclass

THIN = "\u2009"
"""Stands for every space that groups digits: thin, narrow, figure and no-break spaces, and LaTeX's `\\,`."""

_HEAD, _TAIL = 4_000, 20_000  # characters of a long answer that are read
_CURRENCY_WITH_LETTERS = re.compile(r"\b[A-Z]{1,3}\$(?=\s?[0-9])")
_SUPERSCRIPT = re.compile("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_FRACTION_SIGN = re.compile("[¼½¾⅐-⅞↉]")
_ANNOTATION = re.compile(r"<<[^<>\n]{0,200}>>")
_RAISED = re.compile(r"<sup>([-+0-9]{1,9})</sup>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,15}(?:\s[^<>]{0,200})?/?>")
_SIZING = re.compile(r"\\(?:left|right|displaystyle|[bB]igg?[lr]?)(?![A-Za-z])")
_STYLED = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|operatorname|mbox)\s?\{([^{}]{0,500})\}"
)
_LATEX = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;:! ](?=\S)"), THIN),
    (re.compile(r"(?<=[0-9])~(?=[0-9]{3})"), THIN),
    (re.compile(r"\\[()\[\]]|\$\$"), " "),
    (re.compile(r"\\([%$#&_])"), r"\1"),
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])"), "×"),
    (re.compile(r"\\div(?![A-Za-z])"), "÷"),
    (re.compile(r"\\pm(?![A-Za-z])"), "±"),
    (re.compile(r"\\(?:approx|simeq)(?![A-Za-z])"), "≈"),
    (re.compile(r"\\(?:leq?|geq?|neq?|lt|gt)(?![A-Za-z])"), "≠"),
)
_MARKDOWN = (
    (re.compile(r"(?<=[0-9])\*\*(?=[0-9{(-])"), "^"),
    (re.compile(r"(?<=[0-9]) ?\* ?(?=[0-9(])"), "×"),
    (re.compile(r"(?<=[0-9]) ?[xX] ?(?=[0-9])"), "×"),
    (re.compile(r"[*`]"), ""),
    (re.compile(r"(?<![0-9A-Za-z])_{1,3}|_{1,3}(?![0-9A-Za-z])"), ""),
)
_BOX = re.compile(r"\\f?boxed\s?\{|\\fbox\s?\{")
_MARKS = "$*<\\_`{~"
_BY = re.compile(r"[0-9] ?[xX]")


@dataclass(frozen=True)
class Unclear:
    """The reason why an answer cannot be read as one choice or one number."""

    reason: str


NO_END_OF_THOUGHTS = Unclear("the reasoning never ends")
OPEN_BOX = Unclear("a box that is never closed")


class _Typography(dict[int, int | str | None]):
    """Table for str.translate: digits, spaces and signs of any script in their ASCII form, looked up once each."""

    def __missing__(self, code: int) -> int | str | None:
        self[code] = _ascii(chr(code))
        return self[code]


_EQUALS = dict.fromkeys("\u00a0\u202f\u2005\u2006\u2007\u2008\u2009\u200a", THIN)
_EQUALS |= dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\ufe63", "-") | dict.fromkeys("·⋅∙✕✖", "×")
_EQUALS |= dict.fromkeys("\u2044\u2215", "/") | dict.fromkeys("’ʼ", "'") | dict.fromkeys("≤≥", "≠")
_EQUALS |= {"٬": ",", "٫": ".", "、": ",", "。": ". "}


def _ascii(character: str) -> str | None:
    if character in _EQUALS:
        return _EQUALS[character]
    kind = unicodedata.category(character)
    if kind in ("Cf", "Sc"):  # marks without width; currencies, whose amounts are numbers as they stand
        return None
    if kind == "Nd":
        return str(unicodedata.decimal(character))
    return unicodedata.normalize("NFKC", character) if "\uff01" <= character <= "\uff5e" else character


_TYPOGRAPHY = _Typography()


def plain(text: str) -> str:
    """Return the text without decoration; of a long text only its beginning and its end."""
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n\n{text[-_TAIL:]}"
    # Most answers have no decoration: for them all the patterns below are spared.
    if text.isascii() and not any(mark in text for mark in _MARKS) and not _BY.search(text):
        return text
    if "<" in text:
        text = _TAG.sub("", _RAISED.sub(r"^{\1}", _ANNOTATION.sub("", text)))
    if not text.isascii():
        text = _SUPERSCRIPT.sub(lambda match: f"^{{{unicodedata.normalize('NFKC', match[0])}}}", text)
        text = _FRACTION_SIGN.sub(lambda match: f" {unicodedata.normalize('NFKC', match[0])}", text)
    if any(mark in text for mark in "\\~${"):
        text = _without_latex(text)
    text = _CURRENCY_WITH_LETTERS.sub("", text).translate(_TYPOGRAPHY).replace("^{−", "^{-")
    for pattern, replacement in _MARKDOWN:
        text = pattern.sub(replacement, text)
    return text


def _without_latex(text: str) -> str:
    text = _SIZING.sub("", text)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    for _ in range(3):  # styles inside styles
        text = _STYLED.sub(r" \1 ", text)
    return text


def find_boxed(text: str) -> tuple[int, str] | Unclear | None:
    r"""Return the position and the content of the last `\boxed{…}`; None if there is no box."""
    openings = list(_BOX.finditer(text))
    if not openings:
        return None
    opening = openings[-1]
    depth = 1
    # Braces nest, as in \boxed{\frac{1}{2}}: no regular expression finds the one that closes.
    for position in range(opening.end(), len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return opening.start(), text[opening.end() : position]
    return OPEN_BOX
