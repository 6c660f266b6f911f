"""Sentences of an audit's first view, for readers without training: natural frequencies, no judgement, no jargon.

Shares are written as `97 of 100`, probabilities as `1 of 40 comparisons`; exact figures follow further down the page.
"""

import math

from steelyard.report.comparison.reports import Comparison, NotComparable
from steelyard.report.results import Metric, Unit
from steelyard.report.statistics.intervals import Estimate
from steelyard.report.wording import count, interval, percent, signed_points

SELDOM = 0.05
"""p value below which a difference is called unlikely to be chance, if its interval does not contain 0 either."""
WIDE = 10
"""Width of a scale from which on scores have one digit after the point, not three."""


def of_hundred(share: float) -> str:
    """Return `97 of 100`; never all or none of 100 unless the share is exactly 1 or 0."""
    rounded = round(100 * share)
    # "100 of 100" would say that no error was seen.
    if rounded == 100 and share < 1:
        return "more than 99 of 100"
    if rounded == 0 and share > 0:
        return "fewer than 1 of 100"
    return f"{rounded} of 100"


def interval_of_hundred(estimate: Estimate) -> str:
    """Return `95 % interval: 96 to 98 of 100`, with its ends rounded outwards."""
    if estimate.low is None or estimate.high is None:
        return "no interval"
    # Outwards, so that rounding never makes the interval narrower; the margin keeps 0.29 from becoming 28.
    low, high = math.floor(100 * estimate.low + 1e-9), math.ceil(100 * estimate.high - 1e-9)
    return f"95 % interval: {low} to {high} of 100"


def interval_of(lead: Metric, right_or_wrong: bool) -> str:
    """Return the interval on the scale of the number: of a hundred, in per cent, or as it is."""
    if right_or_wrong:
        return interval_of_hundred(lead.estimate)
    low, high = lead.estimate.low, lead.estimate.high
    if low is None or high is None:
        return "no interval"
    if lead.unit == "share":
        return f"95 % interval: {interval(lead.estimate)}"
    return f"95 % interval: {_plain(low, lead)} to {_plain(high, lead)}"


def result_clause(lead: Metric, right_or_wrong: bool, noun: str = "question") -> str:
    """Return the end of a sentence that begins with the system's name, such as `answers 97 of 100 questions right`."""
    value = lead.estimate.value
    if value is None:
        return "was asked nothing" if not lead.estimate.n else f"has no {lead.title}"
    if right_or_wrong:
        return f"answers {of_hundred(value)} {noun}s right"
    if lead.unit == "share":
        return f"scores {percent(value)} on average ({lead.title})"
    if lead.scale:
        low, high = lead.scale
        return f"scores {_plain(value, lead)} on a scale from {low:g} to {high:g} ({lead.title})"
    return f"scores {_plain(value, lead)} ({lead.title})"


def _plain(value: float, lead: Metric) -> str:
    """Return the number with one digit after the point on a wide scale, else with three."""
    wide = lead.scale is not None and lead.scale[1] - lead.scale[0] >= WIDE
    return f"{value:.1f}" if wide else f"{value:.3f}"


def size_text(questions: int, answers: int, noun: str = "question") -> str:
    """Return `899 questions, each asked 2 times`."""
    if answers == questions:
        return f"{count(questions)} {noun}s, each asked once"
    if answers % questions == 0:
        return f"{count(questions)} {noun}s, each asked {answers // questions} times"
    return f"{count(questions)} {noun}s, {count(answers)} answers"


def comparison_sentence(comparison: Comparison | NotComparable, baseline: str, unit: Unit = "share") -> str:
    """Say how much better or worse than the baseline the system is, with the interval."""
    if isinstance(comparison, NotComparable):
        return f"Not comparable with {baseline}, because {comparison.reason}."
    if not comparison.binary:
        return _compare_scores(comparison, baseline, unit)
    difference = comparison.difference
    value, low, high = difference.value or 0.0, difference.low, difference.high
    doubt = "no interval" if low is None or high is None else f"95 % interval: {_range_text(low, high)}"
    theirs = f"{baseline}, which answers {of_hundred(comparison.baseline.value or 0.0)} right"
    if value == 0:
        return f"Right as often as {theirs} (difference, {doubt})."
    way = "more" if value > 0 else "fewer"
    return f"Right on {_points(value)} of 100 questions {way} ({doubt}) than {theirs}."


def _compare_scores(comparison: Comparison, baseline: str, unit: Unit) -> str:
    """Return the sentence for scores between right and wrong, which are compared question by question."""
    difference, points = comparison.difference, " points" if unit == "share" else ""
    value = difference.value or 0.0

    def signed(number: float) -> str:
        return signed_points(number, unit)

    level = comparison.baseline.value or 0.0
    theirs = f"{baseline}, whose questions score {percent(level) if unit == 'share' else f'{level:.3f}'}"
    doubt = "no interval"
    if difference.low is not None and difference.high is not None:
        doubt = f"95 % interval of the difference: {signed(difference.low)} to {signed(difference.high)}"
    if value == 0:
        return f"Question by question, the same score on average as {theirs} ({doubt})."
    size, way = signed(abs(value)).lstrip("+"), "more" if value > 0 else "less"
    return f"Question by question, it scores {size}{points} {way} on average ({doubt}) than {theirs}."


def chance_sentence(comparison: Comparison) -> str:
    """Say whether the difference could be chance, in words that need no training."""
    low, high, p = comparison.difference.low or 0.0, comparison.difference.high or 0.0, comparison.p_value.p
    if comparison.difference.value == 0:
        return "The questions asked show no difference; a small one may still be there."
    beyond = low > 0 or high < 0
    # Interval and test are different methods and may disagree near the border: then the sentence says so.
    if p >= SELDOM and not beyond:
        return (
            "This could be chance: if both were equally good, a difference as large would show up "
            f"in {_frequency(p)} ({p_value(p)})."
        )
    frequency = f"in {_frequency(p)} ({p_value(p)})"
    cause = f"If both were equally good, chance alone would make a difference as large {frequency}."
    if p < SELDOM and beyond:
        return f"This is unlikely to be chance. {cause}"
    return f"This is at the border of what chance explains. {cause}"


def p_value(p: float) -> str:
    """Return `p = 0.034`: two significant digits, without an exponent."""
    if p < 0.0001:
        return "p < 0.0001"
    return f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.{1 - math.floor(math.log10(p))}f}"


def _frequency(p: float) -> str:
    if p >= 0.995:
        return "nearly every comparison"
    if p >= 0.095:
        return f"about {round(100 * p)} of 100 comparisons"
    if p < 0.0001:
        return "less than 1 of 10,000 comparisons"
    times = 1 / p
    digits = 10 ** (math.floor(math.log10(times)) - 1)
    return f"about 1 of {count(round(times / digits) * digits)} comparisons"


def _range_text(low: float, high: float) -> str:
    """Return `1.2 fewer to 3.4 more`, or `1.9 to 4.3 more`."""
    if low >= 0 or high <= 0:
        near, far = sorted((abs(low), abs(high)))
        return f"{_points(near)} to {_points(far)} {'more' if low >= 0 else 'fewer'}"
    return f"{_points(low)} fewer to {_points(high)} more"


def _points(difference: float) -> str:
    """Return questions of 100 with one digit after the point; `less than 0.1` for a small number that is not 0."""
    text = f"{100 * abs(difference):.1f}"
    return "less than 0.1" if text == "0.0" and difference else text
