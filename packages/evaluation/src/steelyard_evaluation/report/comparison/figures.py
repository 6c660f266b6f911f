"""Draws comparisons: each difference as a dot with its 95 % interval, with the line of no difference; and tables."""

import math
from collections.abc import Sequence

from steelyard_evaluation.report.comparison.reports import ChangedQuestions, Comparison
from steelyard_evaluation.report.page.figures import PLOT_WIDTH, draw
from steelyard_evaluation.report.results import Figure, Table
from steelyard_evaluation.report.wording import count, difference_text

TITLE = "How much more, or less, is right"
KINDS = {
    "worse": "Right less often now",
    "better": "Right more often now",
    "otherwise": "Wrong as often, with other answers",
}
GRADED = {
    "worse": "Lower score now",
    "better": "Higher score now",
    "otherwise": "The same score, with other answers",
}


def difference_figure(
    rows: Sequence[tuple[str, Comparison]], where: str = "", against: str = "the earlier audit"
) -> Figure:
    """Draw one row per comparison, which must be `drawable`; the axis is symmetric, so that zero is in its middle."""
    bounds = [
        abs(bound or 0.0)
        for _, comparison in rows
        for bound in (comparison.difference.low, comparison.difference.high)
    ]
    step = _tick_distance(100 * max(bounds))
    reach = step * math.ceil(100 * max(bounds) / step)

    def at(points: float) -> float:
        return round(PLOT_WIDTH * (points + reach) / (2 * reach), 2)

    marks = [
        {
            "label": label,
            "x": at(100 * (comparison.difference.value or 0.0)),
            "low": at(100 * (comparison.difference.low or 0.0)),
            "high": at(100 * (comparison.difference.high or 0.0)),
            "text": difference_text(comparison.difference),
        }
        for label, comparison in rows
    ]
    each_side = round(reach / step)
    ticks = [
        (at(k * step), f"{k * step:+g}".replace("-", "−") if k else "0")
        for k in range(-each_side, each_side + 1)
    ]
    summary = (
        "The dot is the difference that was seen, the line its 95 % interval. Where the line crosses zero, the "
        "difference could be chance."
    )
    title = f"{TITLE}{' than before' if against == 'the earlier audit' else ''}{where}"
    table = Table(
        title,
        ("Test", "Difference, points (95 % interval)"),
        tuple((label, difference_text(comparison.difference)) for label, comparison in rows),
    )
    return draw(
        "difference.svg.j2",
        title,
        summary,
        table,
        marks=marks,
        ticks=ticks,
        zero=at(0),
        width=PLOT_WIDTH,
        against=against,
    )


def drawable(comparison: Comparison) -> bool:
    """Return True if the difference is one of shares of right answers and has an interval."""
    return (
        comparison.binary and comparison.difference.low is not None and comparison.difference.high is not None
    )


def two_by_two(comparison: Comparison, sides: tuple[str, str] = ("now", "in the earlier audit")) -> Table:
    """Return the contingency table as rows; `sides` are the words for the system and its baseline."""
    now, before = sides
    counts = comparison.contingency
    total = (counts.both_right + counts.only_system, counts.only_baseline + counts.both_wrong)
    rows = (
        (f"Right {before}", counts.both_right, counts.only_baseline),
        (f"Not right {before}", counts.only_system, counts.both_wrong),
        ("Together", *total),
    )
    note = "A question counts as right where each of its answers was."
    return Table("Question by question", ("Questions", f"Right {now}", f"Not right {now}"), rows, note)


def changes_table(changes: ChangedQuestions, binary: bool = True) -> Table:
    """Return the questions that changed in one way, or the first of them; the title says how many there are."""
    shown = len(changes.shown)
    which = {"worse": "the greatest losses first", "better": "the greatest gains first"}.get(
        changes.kind, "by row"
    )
    bounded = f"; {shown} shown, {which}" if shown < changes.total else ""
    questions = "1 question" if changes.total == 1 else f"{count(changes.total)} questions"
    title = f"{(KINDS if binary else GRADED)[changes.kind]}: {questions}{bounded}"
    rows = tuple((str(row.index), row.label, row.before, row.now) for row in changes.shown)
    return Table(title, ("Row", "Should be", "Earlier answer", "Answer now"), rows)


def _tick_distance(reach: float) -> float:
    """Return a round distance of ticks: at most four on each side."""
    power = 10.0 ** math.floor(math.log10(reach)) if reach > 0 else 1.0
    return next(power * k for k in (0.5, 1, 2, 5) if reach <= 4 * power * k)
