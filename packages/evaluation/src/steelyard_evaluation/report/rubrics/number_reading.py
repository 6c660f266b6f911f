r"""Reads the number that an answer gives, or the reason why it gives none, for `numeric.Close`.

Only a number by itself is read. Parts of dates, times, versions, names and units do not count as numbers. A text that
can be read in two ways (`1,23`, `3-5`, `3 or 4`, `12k`) or has to be computed (`10 - 4`, `2\pi`) is not guessed.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from steelyard_evaluation.report.rubrics.answer import final_part
from steelyard_evaluation.report.rubrics.number_values import TERM, latex_fraction, parse_value, times_power
from steelyard_evaluation.report.rubrics.plain_text import (
    NO_END_OF_THOUGHTS,
    THIN,
    Unclear,
    find_boxed,
    plain,
)
from steelyard_evaluation.report.rubrics.statements import explicit_statements, number_opening

Which = Literal["last", "first"]


@dataclass(frozen=True)
class Number:
    """A number, whether a per cent sign follows it, and its text."""

    value: float
    percent: bool
    text: str


NO_NUMBER = Unclear("no number")
_RUN = rf"""(?:[0-9]{{1,9}}[ {THIN}](?=[0-9]{{1,9}}/[0-9]))?
    (?:[0-9]+|\.[0-9]+)(?:(?:[.,'_{THIN}:/-]|[ ](?=[0-9]{{3}}(?![0-9])))[0-9]+)*"""
_TOKEN = re.compile(
    rf"""(?=[-+.0-9\\])(?P<sign>[-+]\s{{0,2}})?
    (?:
      (?:(?P<times>[0-9]{{1,9}})\s?)?\\[dtc]?frac\s?(?P<terms>{TERM}\s?{TERM})
    | (?P<run>{_RUN})
      (?: [eE](?P<e>[-+]?[0-9]{{1,4}})(?![0-9A-Za-z])
        | [ ]?×[ ]?10[ ]?\^[ ]?\{{?\s?(?P<power>[-+]?[0-9]{{1,4}})\s?\}}?(?![0-9])
        | [ ]?\^[ ]?\{{?\s?(?P<raised>[-+]?[0-9]{{1,4}})\s?\}}?(?![0-9.])
      )?
    )
    (?P<percent>[ ]?%|[ ](?:percent|per[ ]cent)\b)?
    (?:[ ](?P<scale>hundred|thousand|million|billion|trillion)s?\b)?""",
    re.VERBOSE | re.IGNORECASE,
)
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_CODES = re.compile(
    "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|BRL|KRW|RMB|RS|KR", re.IGNORECASE
)

_BEFORE = 40  # characters before a number that say what it is
_WORD_BEFORE = re.compile(r"(\\?)([A-Za-zÀ-ɏ]+)\Z")
_OPERATOR_BEFORE = re.compile(
    r"(?:[0-9)}%]|(?<![A-Za-z])[A-Za-z])\s?[-+×÷/^±]\s?\Z|[×÷±√]\s?\Z|\\(?:sqrt|frac)[{\[]?\s?\Z"
)
_OPERATOR_AFTER = re.compile(
    r"\s?[+×÷^±]\s?(?!\{?\\circ)[-0-9A-Za-z(\\{.]|\s?/\s?[-0-9(\\]|\s-\s[0-9(\\]"
    r"|\s?\\(?:pi|sqrt|sin|cos|log|ln|theta)|\s?[π√]|[xyzn](?![A-Za-z])|\s?\((?=[0-9a-z\\])(?=[^)]{0,80}[-+×÷/^=])"
)
_ANOTHER_AFTER = re.compile(
    r"\s?(?:,|;|\band\b|\bor\b)\s?(?:and\s|or\s)?(?:[A-Za-z]\w?\s?=\s?)?[-+]?\.?[0-9\\]"
)
_EQUATIONS = re.compile(r"[0-9}]\s?(?:,|;|\bor\b|\band\b)\s?[A-Za-z]\w?\s?=")
_ANOTHER_BEFORE = re.compile(r"[0-9]%?\s{1,3}or\s{1,3}\Z")
_UNEQUAL_BEFORE = re.compile(r"(?:≠|(?<![-=])>|<)=?\s?\Z")
_UNCLEAR_BEFORE = (
    (_OPERATOR_BEFORE, "to be worked out"),
    (_UNEQUAL_BEFORE, "not equal to a number"),
    (_ANOTHER_BEFORE, "several numbers"),
)
_SUFFIX = re.compile(r"(?:[kKMB]|bn|mn)(?![A-Za-z])")
_CLAUSE_END = re.compile(r"[.!?;](?=\s|\Z)|\n")
_MARKED = re.compile(r"####[ \t]{0,3}(?=[-+.\\0-9])(?!#)(?![0-9]{1,2}[.)][ \t][^\W\d_])")
_LAST_DIGIT = re.compile("[0-9]")


def read_number(text: str, which: Which = "last") -> Number | Unclear:
    r"""Return the number after the last `####` (GSM8K's form), else the one in the last `\boxed{…}`, else the one after
    words such as "the answer is", else the text's last (or first).
    """
    final = final_part(text)
    if final is None:
        return NO_END_OF_THOUGHTS
    final = plain(final)
    # GSM8K's own form outranks all others: answers to it quote numbers before and behind the result.
    marks = list(_MARKED.finditer(final))
    if marks:
        return _single_number(final[marks[-1].end() :].partition("\n")[0])
    box = find_boxed(final)
    if isinstance(box, Unclear):
        return box
    if box is not None:
        return _single_number(box[1], whole=True)
    for clause in explicit_statements(final):
        if (number := _read_stated(clause)) is not None:
            return number
    return _first_readable(final, list(_TOKEN.finditer(final))) if which == "first" else _last_number(final)


def number_in(text: str, which: Which = "last") -> Number | None:
    """Return the number of a text; None if there is none or no clear one."""
    number = read_number(text, which)
    return number if isinstance(number, Number) else None


def _read_stated(text: str) -> Number | Unclear | None:
    """Return the number in a clause that follows the words "the answer is"; None if it does not begin with one."""
    clause = _CLAUSE_END.split(text, maxsplit=1)[0]
    opening = number_opening(clause)
    if opening is None:
        return None
    clause = clause[opening:]
    match = _TOKEN.match(clause)
    if match is None:
        return None
    if _OPERATOR_AFTER.match(clause, match.end()) and "=" in clause:
        return _single_number(clause.rpartition("=")[2])
    return _single_number(clause)


def _single_number(text: str, *, whole: bool = False) -> Number | Unclear:
    """Return the first number of a short text; Unclear if another one may be meant. With `whole`, all of the text must
    be that number.
    """
    if whole and _EQUATIONS.search(text):
        return Unclear(f"several numbers: {' '.join(text.split())[:80]}")
    if whole and "=" in text:
        text = text.rpartition("=")[2]
    for match in _TOKEN.finditer(text):
        number = _read_match(match, alone=True)
        if number is None:
            continue
        if isinstance(number, Number):
            if _OPERATOR_AFTER.match(text, match.end()):
                return Unclear(f"to be worked out: {_context(match)}")
            if _ANOTHER_AFTER.match(text, match.end()):
                return Unclear(f"several numbers: {_context(match)}")
        return number
    return NO_NUMBER


def _last_number(text: str) -> Number | Unclear:
    """Return the last number. Only the end of the text is searched first, because answers may be long."""
    digit = _LAST_DIGIT.search(text[::-1])
    if digit is None:
        return NO_NUMBER
    # The line before the last digit and 200 characters: numbers and what is around them lie in there.
    near = text.rfind("\n", 0, max(0, len(text) - digit.end() - 200)) + 1
    number = _first_readable(text, list(_TOKEN.finditer(text, near))[::-1])
    if number is NO_NUMBER and near:
        return _first_readable(text, list(_TOKEN.finditer(text))[::-1])
    return number


def _first_readable(text: str, matches: Iterable[re.Match[str]]) -> Number | Unclear:
    """Return the first of the matches that is a number, or may be one."""
    first, last = len(text) - len(text.lstrip()), len(text.rstrip(" \n.!"))
    for match in matches:
        number = _read_match(match, alone=match.start() <= first and match.end() >= last)
        if number is not None:
            return number
    return NO_NUMBER


def _read_match(match: re.Match[str], *, alone: bool) -> Number | Unclear | None:
    """Return the number of a match; None if its digits are part of a word, a date or the like."""
    before = match.string[max(0, match.start() - _BEFORE) : match.start()]
    sign, start = _sign(match, before, alone=alone)
    if sign is None:
        return Unclear(f"a minus or a dash: {_context(match)}")
    if match["sign"] and start == match.end("sign"):
        before = match.string[max(0, start - _BEFORE) : start]
    if _part_of_a_word(before):
        return None
    for pattern, reason in _UNCLEAR_BEFORE:
        if pattern.search(before):
            return Unclear(f"{reason}: {_context(match)}")
    if _SUFFIX.match(match.string, match.end()):
        return Unclear(f"a unit or thousands, millions: {_context(match)}")
    size = _size(match, alone=alone)
    if size is None or isinstance(size, Unclear):
        return size
    # A score that is infinite is near to nothing and to everything.
    if not math.isfinite(size):
        return Unclear(f"not finite: {_context(match)}")
    return Number(sign * size, match["percent"] is not None, match.string[start : match.end()].strip())


def _sign(match: re.Match[str], before: str, *, alone: bool) -> tuple[int | None, int]:
    """Return 1 or -1, None if that is unclear, and the start of the number: behind a dash that does not mean minus."""
    written = match["sign"]
    if not written:
        return 1, match.start()
    follows = before.rstrip(" ")[-1:]
    if follows and (follows.isalnum() or follows in ")]}%") and (len(written) > 1 or before[-1:] != " "):
        return 1, match.end("sign")  # a dash or an operator
    value = -1 if written[0] == "-" else 1
    if len(written) == 1 or value == 1 or follows in ("=", "("):
        return value, match.start()
    if alone or follows == ":":
        return None, match.start()
    return 1, match.end("sign")  # a list's bullet


def _part_of_a_word(before: str) -> bool:
    """Return True behind a letter or the like: B12, x_1, m^2 and covid-19 are names and units, USD12 is not."""
    if before.endswith(("^", "_", "^{", "_{")) and not re.search(r"[0-9)]\^\{?\Z", before):
        return True
    word = _WORD_BEFORE.search(before.removesuffix("-"))
    if word is None or (word[1] and not before.endswith("-")):
        return False
    return not _CODES.fullmatch(word[2])


def _size(match: re.Match[str], *, alone: bool) -> float | Unclear | None:
    if match["terms"]:
        return latex_fraction(match["terms"], int(match["times"] or 0))
    run = match["run"]
    size = parse_value(run, alone=alone)
    if not isinstance(size, float):
        return size
    if exponent := match["e"] or match["power"]:
        return times_power(run, size, int(exponent))
    if match["raised"]:
        try:
            size = math.pow(size, int(match["raised"]))
        except (OverflowError, ValueError):
            return math.inf
    return size * _SCALES.get((match["scale"] or "").lower(), 1)


def _context(match: re.Match[str]) -> str:
    """Return the number with a few words on both sides, for messages."""
    around = match.string[max(0, match.start() - 15) : match.end() + 15]
    return " ".join(around.split())[:80]
