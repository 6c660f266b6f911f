"""Sentences of an audit's first view, for readers without training: natural frequencies, no judgement, no jargon.

Shares are written as `97 of 100`, probabilities as `1 of 40 comparisons`; exact figures follow further down the page.
"""

import math

from steelyard_evaluation.report.comparison.reports import Comparison, NotComparable
from steelyard_evaluation.report.results import Metric, Unit
from steelyard_evaluation.report.statistics.intervals import Estimate, Scale
from steelyard_evaluation.report.wording import (
    SIGNIFICANCE,
    below_level,
    between_text,
    count,
    count_noun,
    decimal,
    format_points,
    format_value,
    interval,
    percent,
)

HUNDRED = 100
"""Fewest questions whose share is stated per hundred: with fewer, that would say more than was asked."""
CLOSE = 1e-6


def share_of_hundred(share: float) -> str:
    """Return `97 of 100`; never all or none of 100 unless the share is exactly 1 or 0."""
    rounded = round(100 * share)
    # "100 of 100" would say that no error was seen.
    if rounded == 100 and share < 1:
        return "more than 99 of 100"
    if rounded == 0 and share > 0:
        return "fewer than 1 of 100"
    return f"{rounded} of 100"


def share_of_asked(share: float, asked: int, right: int) -> str:
    """Return `97 of 100`, or, of fewer than a hundred, how many of them: `87 of 89`, not `98 of 100`.

    `right` is the number of questions whose every answer is right. A question that was asked several times may be right
    in part: then the share is said.
    """
    if not 0 < asked < HUNDRED:
        return share_of_hundred(share)
    return f"{right if abs(right - share * asked) < CLOSE else percent(share)} of {asked}"


def interval_of_hundred(estimate: Estimate, questions: int) -> str:
    """Return `95 % interval: 96 to 98 of 100`, with its ends rounded outwards."""
    if estimate.low is None or estimate.high is None:
        return "no interval"
    if questions < HUNDRED:
        return f"95 % interval: {interval(estimate)}"
    # Outwards, so that rounding never makes the interval narrower; the margin keeps 0.29 from becoming 28.
    low, high = math.floor(100 * estimate.low + 1e-9), math.ceil(100 * estimate.high - 1e-9)
    return f"95 % interval: {low} to {high} of 100"


def interval_text(lead: Metric, right_or_wrong: bool, questions: int) -> str:
    """Return the interval on the scale of the number: of a hundred, in per cent, or as it is."""
    if right_or_wrong:
        return interval_of_hundred(lead.estimate, questions)
    if lead.estimate.low is None or lead.estimate.high is None:
        return "no interval"
    return f"95 % interval: {between_text(lead.estimate, lead.unit, lead.scale)}"


def result_clause(lead: Metric, right: int | None, questions: int, noun: str = "question") -> str:
    """Return the end of a sentence that begins with the system's name, such as `answers 97 of 100 questions right`.

    `questions` is the number of those that were graded, `right` that of those whose every answer is right; None where
    answers are more than right or wrong.
    """
    value = lead.estimate.value
    if value is None:
        return "was asked nothing" if not lead.estimate.n else f"has no {lead.title}"
    if right is not None:
        return f"answers {share_of_asked(value, questions, right)} {noun}s right"
    if lead.unit == "share":
        return f"scores {percent(value)} on average ({lead.title})"
    if lead.scale:
        low, high = lead.scale
        return f"scores {decimal(value, lead.scale)} on a scale from {low:g} to {high:g} ({lead.title})"
    return f"scores {decimal(value, lead.scale)} ({lead.title})"


def size_text(questions: int, rows: int, noun: str = "question") -> str:
    """Return `899 questions, each asked 2 times`."""
    size = count_noun(questions, noun)
    if rows % questions:
        return f"{size}, {count_noun(rows, 'row')}"
    times = rows // questions
    return f"{size}, {'each ' if questions > 1 else ''}asked {'once' if times == 1 else f'{times} times'}"


def comparison_sentence(
    comparison: Comparison | NotComparable, baseline: str, unit: Unit = "share", scale: Scale | None = None
) -> str:
    """Say how much better or worse than the baseline the system is, with the interval."""
    if isinstance(comparison, NotComparable):
        return f"Not comparable with {baseline}, because {comparison.reason}."
    if not comparison.binary:
        return _compare_scores(comparison, baseline, unit, scale)
    difference, counts, asked = comparison.difference, comparison.contingency, comparison.questions
    value, low, high = difference.value or 0.0, difference.low, difference.high
    few = asked < HUNDRED
    of = ", of 100" if few else ""
    doubt = "no interval" if low is None or high is None else f"95 % interval{of}: {_range_text(low, high)}"
    right = counts.both_right + counts.only_baseline
    theirs = (
        f"{baseline}, which answers {share_of_asked(comparison.baseline.value or 0.0, asked, right)} right"
    )
    if value == 0:
        return f"Right as often as {theirs} (difference, {doubt})."
    size = f"{_points(value)} of 100"
    if few:
        size = share_of_asked(abs(value), asked, abs(counts.only_system - counts.only_baseline))
    return f"Right on {size} questions {'more' if value > 0 else 'fewer'} ({doubt}) than {theirs}."


def _compare_scores(comparison: Comparison, baseline: str, unit: Unit, scale: Scale | None) -> str:
    """Return the sentence for scores between right and wrong, which are compared question by question."""
    difference, points = comparison.difference, " points" if unit == "share" else ""
    value = difference.value or 0.0

    def format_signed(number: float) -> str:
        return format_points(number, unit, scale)

    theirs = f"{baseline}, whose questions score {format_value(comparison.baseline, unit, scale)}"
    doubt = "no interval"
    if difference.low is not None and difference.high is not None:
        doubt = f"95 % interval of the difference: {format_signed(difference.low)} to {format_signed(difference.high)}"
    if value == 0:
        return f"Question by question, the same score on average as {theirs} ({doubt})."
    size, way = format_signed(abs(value)).lstrip("+"), "more" if value > 0 else "less"
    return f"Question by question, it scores {size}{points} {way} on average ({doubt}) than {theirs}."


def chance_sentence(comparison: Comparison) -> str:
    """Say whether the difference could be chance, in words that need no training."""
    p = comparison.p_value.p
    if comparison.difference.value == 0:
        return "The questions asked show no difference; a small one may still be there."
    if p is None:
        return f"Whether this is chance is unknown ({comparison.p_value.method})."
    if p >= SIGNIFICANCE:
        return (
            "This could be chance: if both were equally good, a difference as large would show up "
            f"in {_frequency(p)} ({p_value(p)})."
        )
    return (
        "This is unlikely to be chance. If both were equally good, chance alone would make a difference as large "
        f"in {_frequency(p)} ({p_value(p)})."
    )


def p_value(p: float) -> str:
    """Return `p = 0.034`: two significant digits, without an exponent."""
    if p < 0.0001:
        return "p < 0.0001"
    if p >= 0.1:
        return f"p = {p:.2f}"
    return f"p = {below_level(p) or f'{p:.{1 - math.floor(math.log10(p))}f}'}"


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
