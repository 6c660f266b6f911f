"""Numbers for people: thousands separated, percentages with one digit, intervals as "96.2 to 97.8 %"."""

import math

from steelyard_evaluation.report.statistics.intervals import Estimate

SIGNIFICANCE = 0.05
"""p value below which a difference is significant."""
WIDE = 10
"""Width of a scale from which on numbers have one digit after the point, not three."""


def count(number: int) -> str:
    return f"{number:,}"


def count_noun(number: int, noun: str) -> str:
    """Return `1 answer`, `2,000 answers`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def no_answer_sentence(rows: int) -> str:
    """Return `1 row got no answer; it counts as wrong.`"""
    counts = "it counts" if rows == 1 else "they count"
    return f"{count_noun(rows, 'row')} got no answer; {counts} as wrong."


def percent(share: float) -> str:
    return f"{_points(share)} %"


def interval(estimate: Estimate) -> str:
    """Return `96.2 to 97.8 %`."""
    if estimate.low is None or estimate.high is None:
        return "unknown"
    return f"{_points(estimate.low)} to {_points(estimate.high)} %"


def decimal(value: float, scale: tuple[float, float] | None = None) -> str:
    """Return a number other than a share: with one digit after the point on a wide scale, else with three."""
    wide = scale is not None and scale[1] - scale[0] >= WIDE
    text = f"{value:.1f}" if wide else f"{value:.3f}"
    return text.replace("-", "−" if text.strip("-0.") else "")


def format_value(estimate: Estimate, unit: str = "share", scale: tuple[float, float] | None = None) -> str:
    """Return the value alone: `97.1 %`, `0.043`, or a dash if it is undefined."""
    if estimate.value is None:
        return "–"
    return percent(estimate.value) if unit == "share" else decimal(estimate.value, scale)


def bounds(estimate: Estimate, unit: str = "share", scale: tuple[float, float] | None = None) -> str:
    """Return the interval alone: `96.2–97.8`, in the unit of the value."""
    if estimate.low is None or estimate.high is None:
        return "no interval"
    if unit == "share":
        return f"{_points(estimate.low)}–{_points(estimate.high)}"
    return f"{decimal(estimate.low, scale)}–{decimal(estimate.high, scale)}"


def between_text(estimate: Estimate, unit: str = "share", scale: tuple[float, float] | None = None) -> str:
    """Return the interval as words: `96.2 to 97.8 %`, `0.041 to 0.045`, `unknown`."""
    if unit == "share" or estimate.low is None or estimate.high is None:
        return interval(estimate)
    return f"{decimal(estimate.low, scale)} to {decimal(estimate.high, scale)}"


def format_points(difference: float, unit: str = "share", scale: tuple[float, float] | None = None) -> str:
    """Return `+2.1`, `−0.4`, `0.0`: percentage points for a share, else a number with the digits of `decimal`.

    A difference that is not 0 never reads 0: `+<0.1`. The end of an interval shows on which side of 0 it is.
    """
    text = f"{100 * abs(difference):.1f}" if unit == "share" else decimal(abs(difference), scale)
    if difference == 0:
        return text
    if not text.strip("0."):
        text = f"<{text[:-1]}1"
    return f"{'+' if difference > 0 else '−'}{text}"


def difference_text(
    difference: Estimate, unit: str = "share", scale: tuple[float, float] | None = None
) -> str:
    """Return the difference with its interval, `+2.4 (+0.3 to +4.5)`, or a dash if it is undefined."""
    if difference.value is None:
        return "–"
    text = format_points(difference.value, unit, scale)
    if difference.low is None or difference.high is None:
        return f"{text} (no interval)"
    low, high = (format_points(bound, unit, scale) for bound in (difference.low, difference.high))
    return f"{text} ({low} to {high})"


def small_p(p: float | None) -> str:
    """Return `0.034`, `<0.001`, or a dash. A p value below 0.05 never reads 0.050: `0.0496`."""
    if p is None:
        return "–"
    if p < 0.001:
        return "<0.001"
    return below_level(p) or f"{p:.3f}"


def below_level(p: float) -> str:
    """Return a p value just below 0.05 with more digits, rounded down; nothing for any other."""
    return f"{math.floor(10_000 * p) / 10_000:.4f}" if f"{p:.3f}" == "0.050" and p < SIGNIFICANCE else ""


def _points(share: float) -> str:
    """Return the percentage with one digit after the point; a share that is not 1 or 0 never reads 100 or 0."""
    text = f"{100 * share:.1f}"
    if text == "100.0":
        return "100" if share == 1 else ">99.9"
    if text == "0.0":
        return "0" if share <= 0 else "<0.1"
    return text
