"""Scores by the values of a column of the dataset: the result of each group, and its difference from the rest.

`scoring.summarise` calls `group_scores` for each `group:<column>` that scoring wrote.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard.report.page import figures
from steelyard.report.results import Figure, Metric, Table
from steelyard.report.statistics.clusters import student_quantile, sums_of
from steelyard.report.statistics.intervals import (
    Estimate,
    Floats,
    Integers,
    Scale,
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
FEWEST_UNSCALED = 50
"""Fewest clusters' worth on each side of a comparison of scores without a scale."""


@dataclass(frozen=True)
class Group:
    """The answers to the questions with one value of the column."""

    value: str
    questions: int
    estimate: Estimate
    difference: Estimate
    """Difference from all other groups together."""
    p: float | None
    p_holm: float | None
    """p value corrected for the number of groups."""


@dataclass(frozen=True)
class GroupedScores:
    """All groups of one column."""

    column: str
    groups: tuple[Group, ...]
    unit: str


def columns_of(scores: pa.Table) -> list[str]:
    """Return the columns that scores were grouped by."""
    return [name.removeprefix(GROUP) for name in scores.column_names if name.startswith(GROUP)]


def group_scores(scores: pa.Table, column: str, lead: Metric, binary: bool) -> GroupedScores:
    """Return the results for each value of the column, in the order of the values."""
    values = values_of(scores)
    scale = (0.0, 1.0) if lead.unit == "share" else lead.scale
    there = np.isfinite(values)
    index = np.asarray(scores["_index_"].to_numpy(), dtype=np.int64)
    codes, names = codes_of(scores[GROUP + column])
    clusters = clusters_of(scores)
    summaries = []
    for code in np.unique(codes).tolist():
        inside, name = codes == code, NONE if code < 0 else names[code]
        if binary:
            scored = inside & there
            estimate = proportion(values[scored] == 1, clusters[scored])
        else:
            estimate = score_mean(
                pa.table({"score": values[inside]}), clusters[inside], lead.unit, lead.scale
            )
        difference, p = difference_from_rest(values[there], inside[there], clusters[there], scale)
        summaries.append((name, int(np.unique(index[inside]).size), estimate, difference, p))
    # Groups without a test do not count as tests: they would make the correction stricter than it has to be.
    corrected = iter(holm([p for *_, p in summaries if p is not None]))
    groups = [
        Group(name, questions, estimate, difference, p, None if p is None else next(corrected))
        for name, questions, estimate, difference, p in summaries
    ]
    return GroupedScores(column, tuple(sorted(groups, key=lambda group: _order(group.value))), lead.unit)


def difference_from_rest(
    values: Floats, inside: NDArray[np.bool_], clusters: Integers, scale: Scale | None
) -> tuple[Estimate, float | None]:
    """Return the mean inside less the mean outside, and the p value of Welch's test (1947) over clusters.

    With a scale each side gets one more cluster at both ends, as Agresti and Caffo add a success and a failure (2000,
    The American Statistician 54:280-288): a group of three right answers does not prove that there is no spread.
    Without a scale the ends are the least and the greatest value of all.
    """
    from scipy.special import stdtr

    n = int(values.size)
    if not inside.any() or inside.all():
        return Estimate(None, None, None, "nothing to compare with", n), None
    gap = float(values[inside].mean() - values[~inside].mean())
    here, rest = (sums_of(values[mask], clusters[mask]) for mask in (inside, ~inside))
    few = 2 if scale else FEWEST_UNSCALED
    if min(here.count if scale else here.equivalent, rest.count if scale else rest.equivalent) < few:
        return Estimate(gap, None, None, f"no interval: a side has fewer than {few} questions", n), None
    ends = scale or (float(values.min()), float(values.max()))
    here, rest = (side.plus(side.typical, *ends) for side in (here, rest))
    variances = [side.error**2 for side in (here, rest)]
    variance = sum(variances)
    if variance <= 0:
        return Estimate(gap, None, None, "no interval: all scores are alike", n), None
    parts = zip(variances, (here.freedom, rest.freedom), strict=True)
    # Welch and Satterthwaite's, with each side's own degrees of freedom.
    freedom = variance**2 / sum(part**2 / own for part, own in parts)
    error, centre = float(np.sqrt(variance)), here.mean - rest.mean
    half = student_quantile(freedom) * error
    p = float(2 * stdtr(freedom, -abs(centre) / error))
    # The added clusters move the centre towards no difference; the interval has to hold what was seen.
    low, high = min(gap, centre - half), max(gap, centre + half)
    if scale is None:
        return Estimate(gap, low, high, "Welch's t, jackknife", n, error), p
    width = scale[1] - scale[0]
    low, high = max(-width, low), min(width, high)
    return Estimate(gap, low, high, "Agresti and Caffo (2000), Welch's t, jackknife", n, error), p


def group_table(groups: GroupedScores, lead: Metric) -> Table:
    """Return the groups of one column as a table; if there are very many, those with the lowest scores."""
    shown, more = groups.groups, ""
    if len(shown) > MOST_ROWS:
        shown = tuple(sorted(shown, key=lambda group: group.estimate.value or 0.0)[:MOST_ROWS])
        more = f" (the {MOST_ROWS} lowest of {count(len(groups.groups))})"
    rows = tuple(
        (
            group.value,
            group.questions,
            group.estimate if groups.unit == "share" else _number_text(group.estimate),
            _difference_text(group.difference, groups.unit),
            small_p(group.p_holm),
        )
        for group in shown
    )
    note = (
        "The difference is the group's value less that of all other questions, with its 95 % confidence interval "
        "(Welch's t test; rows of one cluster count as one). p values are corrected for the number of groups (Holm): "
        "where no group differed, one below 0.05 would be rare."
    )
    columns = (groups.column, "Questions", lead.title, "Difference from the rest", "p (Holm)")
    return Table(f"By {groups.column}{more}", columns, rows, note)


def group_figure(groups: GroupedScores, lead: Metric) -> Figure | None:
    """Return a bar for each group; None for a single group, or for numbers that have no scale."""
    if groups.unit != "share" or len(groups.groups) < 2:
        return None
    bars = [(group.value, group.estimate) for group in groups.groups]
    return figures.class_bars(f"{lead.title} by {groups.column}", bars, "group")


def group_numbers(groups: GroupedScores) -> list[dict[str, Any]]:
    """Return the groups for report.json."""
    return [
        {
            "value": group.value,
            "questions": group.questions,
            "estimate": group.estimate,
            "difference": group.difference,
            "p": group.p,
            "pHolm": group.p_holm,
        }
        for group in groups.groups
    ]


def _order(value: str) -> tuple[int, float, str]:
    """Return the sort key: numbers by size, then words, then the group without a value."""
    try:
        return 0, float(value), value
    except ValueError:
        return 1 + (value == NONE), 0.0, value


def _number_text(estimate: Estimate) -> str:
    value = "–" if estimate.value is None else f"{estimate.value:.3f}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({estimate.low:.3f} to {estimate.high:.3f})"


def _difference_text(difference: Estimate, unit: str) -> str:
    if difference.value is None:
        return "–"
    if difference.low is None or difference.high is None:
        return signed_points(difference.value, unit)
    low, high = signed_points(difference.low, unit), signed_points(difference.high, unit)
    return f"{signed_points(difference.value, unit)} ({low} to {high})"
