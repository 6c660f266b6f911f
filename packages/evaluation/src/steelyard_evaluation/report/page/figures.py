"""Figures as SVG from templates of our own.

Text stays text, colours are the page's CSS variables, each has a title and a description.

Coordinates are computed here and drawn in `templates/*.svg.j2`; the page sets `--ink`, `--soft`, `--line`,
`--good`, `--bad` and `--paper`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard_common.types import shorten
from steelyard_evaluation.report.page.templating import render
from steelyard_evaluation.report.results import Cell, Figure, Metric, Table
from steelyard_evaluation.report.statistics.calibration import Calibration
from steelyard_evaluation.report.statistics.confusion import NO_ANSWER
from steelyard_evaluation.report.statistics.intervals import Estimate, Integers
from steelyard_evaluation.report.wording import bounds, count, count_noun, format_value, percent

MOST_CLASSES = 40
"""A heat map with more classes says nothing on a page; the table of confusions does."""
MOST_BARS = 40
MOST_LABEL = 20
"""Characters of a label next to a drawing."""
PLOT_LEFT, PLOT_WIDTH = 150, 340


@dataclass(frozen=True)
class _Axis:
    """A linear axis from `low` to `high`, `width` units long."""

    low: float
    high: float
    width: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        # Rounded: floating-point digits beyond what a screen shows would differ between machines, and the
        # bytes with them.
        return round(self.width * min(1.0, max(0.0, share)), 2)

    def ticks(self) -> list[tuple[float, str]]:
        step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if (self.high - self.low) / s <= 6)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self.at(k * step), f"{100 * k * step:.0f} %") for k in range(first, last + 1)]


@dataclass(frozen=True)
class _Mark:
    label: str
    text: str
    x: float | None
    low: float | None
    high: float | None


def intervals(title: str, metrics: Sequence[Metric]) -> Figure:
    """Each metric as a dot with its 95 % interval, on an axis cut to where the intervals lie."""
    known = [m.estimate.low for m in metrics if m.estimate.low is not None]
    low = max(0.0, math.floor(20 * (min(known, default=0.0) - 0.01)) / 20)
    # At least a tenth of the scale is drawn: on a shorter axis the smallest difference would seem large.
    axis = _Axis(min(low, 0.9), 1.0, PLOT_WIDTH)
    rows = [(m.title, m.estimate) for m in metrics]
    cut = "" if axis.low == 0 else f" The axis starts at {100 * axis.low:.0f} %."
    summary = f"{rows[0][0]}: {_estimate_text(rows[0][1])}. The dot is the value, the line its interval.{cut}"
    table = Table(title, ("Metric", "Value and 95 % interval"), tuple(rows))
    return draw("intervals.svg.j2", title, summary, table, marks=_marks(rows, axis), axis=axis)


def lowest_first(estimate: Estimate) -> float:
    """Return a key that sorts estimates by value; those without one come last."""
    return math.inf if estimate.value is None else estimate.value


def class_bars(title: str, classes: Sequence[tuple[str, Estimate]], noun: str = "class") -> Figure:
    """A bar per class with its interval; of very many classes, those with the lowest values."""
    rows = list(classes)
    if len(rows) > MOST_BARS:
        rows = sorted(rows, key=lambda row: lowest_first(row[1]))[:MOST_BARS]
        title = f"{title} ({MOST_BARS} lowest of {len(classes)})"
    worst = min(
        (row for row in rows if row[1].value is not None), key=lambda row: lowest_first(row[1]), default=None
    )
    many = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    summary = f"{len(rows)} {many}." + (
        f" The lowest is {noun} {worst[0]} with {_estimate_text(worst[1])}." if worst else ""
    )
    axis = _Axis(0.0, 1.0, PLOT_WIDTH)
    table = Table(title, (noun.capitalize(), "Value and 95 % interval"), tuple(rows))
    return draw("bars.svg.j2", title, summary, table, marks=_marks(rows, axis), axis=axis)


def confusion_matrix(labels: Sequence[str], counts: Integers) -> Figure:
    """Rows are the true labels, columns the predicted ones.

    Colour is the share of the row, right answers and errors in colours of their own.
    """
    title = "Confusion matrix"
    columns = [*labels, NO_ANSWER] if counts[:, -1].any() else list(labels)
    size = min(44.0, max(14.0, round(500 / len(columns), 2)))
    totals = counts.sum(axis=1)
    cells = [
        _cell(i, j, int(counts[i, j]), int(totals[i]), size)
        for i in range(len(labels))
        for j in range(len(columns))
        if counts[i, j]
    ]
    right, every = int(counts.diagonal().sum()), int(counts.sum())
    summary = (
        f"A row for each true class, a column for each class that was predicted. {count(right)} of "
        f"{count_noun(every, 'row' if counts[:, -1].any() else 'answer')} lie on the diagonal: they are right."
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (label, *(int(n) for n in counts[i, : len(columns)])) for i, label in enumerate(labels)
    )
    table = Table(title, ("True class", *columns), rows)
    return draw(
        "confusion.svg.j2",
        title,
        summary,
        table,
        labels=[shorten(name, MOST_LABEL) for name in labels],
        columns=[shorten(name, MOST_LABEL) for name in columns],
        cells=cells,
        size=size,
    )


def _cell(i: int, j: int, n: int, total: int, size: float) -> dict[str, object]:
    share = n / total
    shade = round(
        0.18 + 0.82 * (share if i == j else math.sqrt(share)), 3
    )  # the root: rare errors stay visible
    return {
        "x": round(j * size, 2),
        "y": round(i * size, 2),
        "n": count(n) if size >= 22 else "",
        "right": i == j,
        "shade": shade,
        "inverse": shade > 0.55,
    }


def reliability(certain: Calibration) -> Figure:
    """Stated certainty against the share that came true, a dot per bin.

    Below, how many answers each bin holds.
    """
    title = "Calibration (reliability diagram)"
    filled = [b for b in certain.bins if b.count and b.confidence is not None]
    axis = _Axis(0.0, 1.0, 320)
    most = max((b.count for b in filled), default=1)
    dots = [
        {
            "x": axis.at(b.confidence or 0.0),
            "y": 320 - axis.at(b.accuracy.value or 0.0),
            "low": 320 - axis.at(b.accuracy.low or 0.0),
            "high": 320 - axis.at(b.accuracy.high or 0.0),
            "left": axis.at(b.low) + 2,
            "width": round(axis.at(b.high) - axis.at(b.low) - 4, 2),
            "bar": round(max(1.0, 50 * b.count / most), 2),
            "n": count(b.count),
        }
        for b in filled
    ]
    summary = (
        f"RMS calibration error of {count(certain.rows)} answers with probabilities: "
        f"{_estimate_text(certain.error)}, the root mean square gap between stated probability and "
        "share correct, debiased. Dots on the diagonal are well "
        "calibrated; below it the system is overconfident."
    )
    rows = tuple(
        (f"{b.low:.2f} to {b.high:.2f}", b.count, percent(b.confidence or 0.0), b.accuracy) for b in filled
    )
    table = Table(title, ("Probability", "Answers", "Mean probability", "Correct"), rows)
    return draw(
        "reliability.svg.j2", title, summary, table, dots=dots, axis=axis, show_counts=len(filled) <= 12
    )


def pixels(values: Sequence[float], label: str) -> Figure | None:
    """A small grey picture of n² numbers, lightest where they are lowest.

    None unless they are a square of 2 to 32 finite numbers a side.
    """
    side = math.isqrt(len(values))
    if side * side != len(values) or not 2 <= side <= 32 or not all(map(math.isfinite, values)):
        return None
    low, high = min(values), max(values)
    levels: dict[int, list[str]] = {}
    for k, value in enumerate(values):
        level = 0 if high == low else round(16 * (value - low) / (high - low))
        if level:
            levels.setdefault(level, []).append(f"M{k % side} {k // side}h1v1h-1z")
    paths = [(round(level / 16, 3), "".join(spots)) for level, spots in sorted(levels.items())]
    svg = render("pixels.svg.j2", side=side, paths=paths, label=label)
    return Figure(label, label, svg)


def draw(template: str, title: str, summary: str, table: Table, **values: object) -> Figure:
    name = "figure-" + "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")
    svg = render(template, title=title, summary=summary, name=name, left=PLOT_LEFT, **values)
    return Figure(title, summary, svg, table)


def _marks(rows: Sequence[tuple[str, Estimate]], axis: _Axis) -> list[_Mark]:
    def place(value: float | None) -> float | None:
        return None if value is None else axis.at(value)

    return [
        _Mark(
            shorten(label, MOST_LABEL),
            f"{format_value(e)}  ({bounds(e)})",
            place(e.value),
            place(e.low),
            place(e.high),
        )
        for label, e in rows
    ]


def _estimate_text(estimate: Estimate) -> str:
    between = bounds(estimate) if estimate.low is None else f"95 % interval {bounds(estimate)}"
    return f"{format_value(estimate)} ({between})"
