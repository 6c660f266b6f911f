"""Numbers as people read them: thousands apart, percentages with one digit, intervals as "96.2 to 97.8 %"."""

from steelyard.report.statistics.intervals import Estimate


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """`1 answer`, `2,000 answers`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def shorten(text: str, most: int) -> str:
    """Return at most this many characters; a text that is cut ends with `…`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def unanswered(questions: int) -> str:
    """`1 question got no answer; it counts as wrong.`"""
    counts = "it counts" if questions == 1 else "they count"
    return f"{counted(questions, 'question')} got no answer; {counts} as wrong."


def percent(share: float) -> str:
    return f"{_points(share)} %"


def interval(estimate: Estimate) -> str:
    """`96.2 to 97.8 %`"""
    if estimate.low is None or estimate.high is None:
        return "unknown"
    return f"{_points(estimate.low)} to {_points(estimate.high)} %"


def shown(estimate: Estimate, unit: str = "share") -> str:
    """The value alone: `97.1 %`, `0.043`, or a dash where it is undefined."""
    if estimate.value is None:
        return "–"
    return percent(estimate.value) if unit == "share" else f"{estimate.value:.3f}"


def bounds(estimate: Estimate, unit: str = "share") -> str:
    """The interval alone: `96.2–97.8`, in the unit of the value."""
    if estimate.low is None or estimate.high is None:
        return "no interval"
    if unit == "share":
        return f"{_points(estimate.low)}–{_points(estimate.high)}"
    return f"{estimate.low:.3f}–{estimate.high:.3f}"


def signed_points(difference: float, unit: str = "share") -> str:
    """`+2.1`, `−0.4`, `0.0`: of 100 where the unit is a share, else with three digits after the point."""
    text = f"{100 * difference:+.1f}" if unit == "share" else f"{difference:+.3f}"
    return text[1:] if not text.strip("+-0.") else text.replace("-", "−")


def small_p(p: float | None) -> str:
    """`0.034`, `<0.001`, or a dash."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _points(share: float) -> str:
    """One digit after the point; never rounds a share up to 100 or down to 0 that is not."""
    text = f"{100 * share:.1f}"
    if text == "100.0":
        return "100" if share == 1 else ">99.9"
    if text == "0.0":
        return "0" if share <= 0 else "<0.1"
    return text
