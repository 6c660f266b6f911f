"""Values of numbers in texts: digits, separators and fractions."""

import math
import re
from decimal import Decimal

from steelyard_evaluation.report.rubrics.plain_text import THIN, Unclear

TERM = r"(?:\{\s?([-+]?)([0-9.,]{1,40})\s?\}|([0-9]))"
_PLACES = 60  # digits of a fraction's terms, so that their conversion takes no time
_GROUPED = (
    r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?",
    rf"[1-9][0-9]{{0,2}}(?:[{THIN}'_][0-9]{{3}})+(?:[.,][0-9]+)?",
    r"[1-9][0-9]{0,2}(?: [0-9]{3}){2,}(?:[.,][0-9]+)?",
    r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?",
)
_WITH_POINTS = re.compile(r"[1-9][0-9]{0,2}(?:(?:\.[0-9]{3}){2,}(?:,[0-9]+)?|\.[0-9]{3},[0-9]+)")
_ENGLISH = re.compile(rf"[0-9]+(?:\.[0-9]+)?|\.[0-9]+|{'|'.join(_GROUPED)}")
_SEPARATORS = re.compile(rf"[{THIN}'_ ]")
_NO_QUANTITY = re.compile(
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:\.[0-9]+)?"  # times
    r"|[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\1[0-9]{2,4}"  # dates
    r"|[0-9]+(?:\.[0-9]+){2,}"  # versions, sections, addresses
)
_FRACTION = re.compile(r"(?:(?P<whole>[0-9]{1,9})[ \u2009])?(?P<top>[^/ ]+) ?/ ?(?P<bottom>[^/]+)")


def times_power(run: str, size: float, exponent: int) -> float:
    """Return size · 10^exponent, by Python's own parser where it can read the digits, so that nothing is rounded."""
    try:
        return float(f"{run}e{exponent}")
    except ValueError:
        return float(Decimal(size).scaleb(exponent)) if math.isfinite(size) else size


def parse_value(run: str, *, alone: bool) -> float | Unclear | None:
    """Return the value of digits and separators; None for a time, a date or a version."""
    if _ENGLISH.fullmatch(run):
        return _decimal(run)
    if _WITH_POINTS.fullmatch(run):
        return float(run.replace(".", "").replace(",", "."))
    # In a sentence, `in 5 200 people` may be two numbers; alone it is one with a space between thousands.
    if re.fullmatch("[0-9]{1,3} [0-9]{3}", run):
        return (
            float(run.replace(" ", "")) if alone and run[0] != "0" else Unclear(f"one number or two: {run}")
        )
    if _NO_QUANTITY.fullmatch(run):
        return None
    fraction = _FRACTION.fullmatch(run)
    if fraction is None or not all(_ENGLISH.fullmatch(fraction[name]) for name in ("top", "bottom")):
        return Unclear(f"not one number: {run[:80]}")
    return _quotient(int(fraction["whole"] or 0), fraction["top"], fraction["bottom"])


def _decimal(digits: str) -> float:
    digits = _SEPARATORS.sub("", digits) if not digits.isdecimal() else digits
    if re.fullmatch(
        r"[0-9]+,[0-9]{1,2}|[0-9]+,[0-9]{4,}", digits
    ):  # grouped by spaces, so the comma is decimal
        return float(digits.replace(",", "."))
    return float(digits.replace(",", ""))


def _quotient(whole: int, top: str, bottom: str) -> float | Unclear:
    if len(top) > _PLACES or len(bottom) > _PLACES:
        return Unclear("a fraction of very many digits")
    below = _decimal(bottom)
    if below == 0:
        return Unclear("divided by zero")
    if top.isdecimal() and bottom.isdecimal():
        # In whole numbers first: a float of each side would round twice.
        return whole + int(top) / int(bottom)
    return whole + _decimal(top) / below


def latex_fraction(terms: str, whole: int) -> float | Unclear:
    parts = re.fullmatch(rf"{TERM}\s?{TERM}", terms)
    if parts is None:
        raise ValueError(f"terms: {terms!r} are not two terms of a fraction")
    top, bottom = parts[2] or parts[3], parts[5] or parts[6]
    if not (_ENGLISH.fullmatch(top) and _ENGLISH.fullmatch(bottom)):
        return Unclear(f"not one number: {terms}")
    size = _quotient(0, top, bottom)
    if isinstance(size, Unclear):
        return size
    negative = (parts[1] == "-") != (parts[4] == "-")
    return whole + (-size if negative else size)
