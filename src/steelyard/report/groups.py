"""Scores told apart by a column of the dataset: how each group did, and whether it differs from the rest.

`scoring.summarise` calls `grouped` for each `group:<column>` that scoring wrote.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from steelyard.report import figures
from steelyard.report.results import Figure, Metric, Table
from steelyard.report.statistics import (
    TAIL,
    Estimate,
    Floats,
    Integers,
    clusters_of,
    codes_of,
    holm,
    proportion,
)
from steelyard.report.status import values_of
from steelyard.report.summary import score_mean
from steelyard.report.wording import count, signed_points, small_p

GROUP = "group:"
NONE = "(none)"
MOST_ROWS = 50


@dataclass(frozen=True)
class Group:
    """The answers to the questions with one value of the column."""

    value: str
    questions: int
    estimate: Estimate
    difference: Estimate
    """From all other groups together."""
    p: float | None
    p_holm: float | None
    """Corrected for the number of groups."""


@dataclass(frozen=True)
class Grouped:
    """All groups of one column."""

    column: str
    groups: tuple[Group, ...]
    unit: str


def columns_of(scores: pa.Table) -> list[str]:
    """The columns that scores were grouped by."""
    return [name.removeprefix(GROUP) for name in scores.column_names if name.startswith(GROUP)]


def grouped(scores: pa.Table, column: str, lead: Metric, binary: bool) -> Grouped:
    """How each value of the column did, in the order of the values."""
    values = values_of(scores)
    there = np.isfinite(values)
    index = np.asarray(scores["_index_"].to_numpy(), dtype=np.int64)
    codes, names = codes_of(scores[GROUP + column])
    clusters = clusters_of(scores)
    found = []
    for code in np.unique(codes).tolist():
        inside, name = codes == code, NONE if code < 0 else names[code]
        if binary:
            scored = inside & there
            estimate = proportion(values[scored] == 1, clusters[scored])
        else:
            estimate = score_mean(pa.table({"score": values[inside]}), clusters[inside], lead.unit)
        between, p = from_the_rest(values[there], inside[there], clusters[there], lead.unit)
        found.append((name, int(np.unique(index[inside]).size), estimate, between, p))
    corrected = iter(holm([p for *_, p in found if p is not None]))
    groups = [
        Group(name, questions, estimate, between, p, None if p is None else next(corrected))
        for name, questions, estimate, between, p in found
    ]
    return Grouped(column, tuple(sorted(groups, key=lambda group: _order(group.value))), lead.unit)


@dataclass(frozen=True)
class _Side:
    """Mean and variance of one side, and how many clusters know of them."""

    mean: float
    variance: float
    clusters: int


def from_the_rest(
    values: Floats, inside: NDArray[np.bool_], clusters: Integers, unit: str
) -> tuple[Estimate, float | None]:
    """The mean inside less the mean outside, and the p value: Welch's test (1947), rows of one cluster as one.

    Of shares each side gets one success and one failure more, as Agresti and Caffo do (2000, The American
    Statistician 54:280-288): a group of three that are all right is not known to be without spread.
    """
    n = int(values.size)
    if not inside.any() or inside.all():
        return Estimate(None, None, None, "nothing to compare with", n), None
    gap = float(values[inside].mean() - values[~inside].mean())
    here, rest = (_side(values[mask], clusters[mask], unit == "share") for mask in (inside, ~inside))
    if min(here.clusters, rest.clusters) < 2 or min(here.variance, rest.variance) <= 0:
        return Estimate(gap, None, None, "too few clusters, or all alike: no interval", n), None
    variance = here.variance + rest.variance
    parts = ((here.variance, here.clusters), (rest.variance, rest.clusters))
    freedom = variance**2 / sum(part**2 / (size - 1) for part, size in parts)
    error, centre = float(np.sqrt(variance)), here.mean - rest.mean
    half = float(stdtrit(freedom, TAIL)) * error
    p = float(2 * stdtr(freedom, -abs(centre) / error))
    low, high = centre - half, centre + half
    if unit == "share":
        return Estimate(
            gap, max(-1.0, low), min(1.0, high), "Agresti and Caffo (2000), Welch's t", n, error
        ), p
    return Estimate(gap, low, high, "Welch's t", n, error), p


def _side(values: Floats, clusters: Integers, share: bool) -> _Side:
    _, codes = np.unique(clusters, return_inverse=True)
    count = int(codes.max()) + 1
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    sums = np.bincount(codes, weights=values, minlength=count)
    if share:
        sizes, sums = np.append(sizes, [1.0, 1.0]), np.append(sums, [1.0, 0.0])
        count += 2
    centre = float(sums.sum() / sizes.sum())
    variance = float(((sums - centre * sizes) ** 2).sum()) / sizes.sum() ** 2
    return _Side(centre, variance * count / max(1, count - 1), count)


def group_table(found: Grouped, lead: Metric) -> Table:
    """The groups of one column; of very many those with the lowest scores."""
    shown, more = found.groups, ""
    if len(shown) > MOST_ROWS:
        shown = tuple(sorted(shown, key=lambda group: group.estimate.value or 0.0)[:MOST_ROWS])
        more = f" (the {MOST_ROWS} lowest of {count(len(found.groups))})"
    rows = tuple(
        (
            group.value,
            group.questions,
            group.estimate if found.unit == "share" else _number(group.estimate),
            _gap(group.difference, found.unit),
            small_p(group.p_holm),
        )
        for group in shown
    )
    note = (
        "The difference is from all other questions together, with its 95 % interval (Welch's t, rows that hang "
        "together as one). p is corrected by Holm for the number of groups: below 0.05, chance alone would rarely "
        "make any of them differ so much."
    )
    columns = (found.column, "Questions", lead.title, "Difference from the rest", "p (Holm)")
    return Table(f"By {found.column}{more}", columns, rows, note)


def group_figure(found: Grouped, lead: Metric) -> Figure | None:
    """A bar for each group; none where there is nothing to compare, or a bar would have no scale."""
    if found.unit != "share" or len(found.groups) < 2:
        return None
    bars = [(group.value, group.estimate) for group in found.groups]
    return figures.class_bars(f"{lead.title} by {found.column}", bars)


def group_numbers(found: Grouped) -> list[dict[str, Any]]:
    """The groups in report.json."""
    return [
        {
            "value": group.value,
            "questions": group.questions,
            "estimate": group.estimate,
            "difference": group.difference,
            "p": group.p,
            "pHolm": group.p_holm,
        }
        for group in found.groups
    ]


def _order(value: str) -> tuple[int, float, str]:
    """Numbers by size, then words, then what has no value."""
    try:
        return 0, float(value), value
    except ValueError:
        return 1 + (value == NONE), 0.0, value


def _number(estimate: Estimate) -> str:
    return "".join(_numbers(estimate))


def _numbers(estimate: Estimate) -> Iterator[str]:
    yield "–" if estimate.value is None else f"{estimate.value:.3f}"
    if estimate.low is not None and estimate.high is not None:
        yield f" ({estimate.low:.3f} to {estimate.high:.3f})"


def _gap(between: Estimate, unit: str) -> str:
    if between.value is None:
        return "–"
    if between.low is None or between.high is None:
        return signed_points(between.value, unit)
    low, high = signed_points(between.low, unit), signed_points(between.high, unit)
    return f"{signed_points(between.value, unit)} ({low} to {high})"
