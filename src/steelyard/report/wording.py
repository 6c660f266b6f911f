"""Numbers for people: thousands separated, percentages with one digit, intervals as "96.2 to 97.8 %"."""

from steelyard.report.statistics.intervals import Estimate


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Return `1 answer`, `2,000 answers`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def shorten(text: str, most: int) -> str:
    """Return at most this many characters; a text that is cut ends with `…`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def unanswered(questions: int) -> str:
    """Return `1 question got no answer; it counts as wrong.`"""
    counts = "it counts" if questions == 1 else "they count"
    return f"{counted(questions, 'question')} got no answer; {counts} as wrong."


def percent(share: float) -> str:
    return f"{_points(share)} %"


def interval(estimate: Estimate) -> str:
    """Return `96.2 to 97.8 %`."""
    if estimate.low is None or estimate.high is None:
        return "unknown"
    return f"{_points(estimate.low)} to {_points(estimate.high)} %"


def shown(estimate: Estimate, unit: str = "share") -> str:
    """Return the value alone: `97.1 %`, `0.043`, or a dash if it is undefined."""
    if estimate.value is None:
        return "–"
    return percent(estimate.value) if unit == "share" else f"{estimate.value:.3f}"


def bounds(estimate: Estimate, unit: str = "share") -> str:
    """Return the interval alone: `96.2–97.8`, in the unit of the value."""
    if estimate.low is None or estimate.high is None:
        return "no interval"
    if unit == "share":
        return f"{_points(estimate.low)}–{_points(estimate.high)}"
    return f"{estimate.low:.3f}–{estimate.high:.3f}"


def signed_points(difference: float, unit: str = "share") -> str:
    """Return `+2.1`, `−0.4`, `0.0`: percentage points for a share, else the number with three digits."""
    text = f"{100 * difference:+.1f}" if unit == "share" else f"{difference:+.3f}"
    return text[1:] if not text.strip("+-0.") else text.replace("-", "−")


def small_p(p: float | None) -> str:
    """Return `0.034`, `<0.001`, or a dash."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _points(share: float) -> str:
    """Return the percentage with one digit after the point; a share that is not 1 or 0 never reads 100 or 0."""
    text = f"{100 * share:.1f}"
    if text == "100.0":
        return "100" if share == 1 else ">99.9"
    if text == "0.0":
        return "0" if share <= 0 else "<0.1"
    return text
