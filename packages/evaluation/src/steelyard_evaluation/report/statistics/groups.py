"""Scores by the values of a column of the dataset: the result of each group, and its difference from the rest.

`scoring.summarise` calls `group_scores` for each `group:<column>` that scoring wrote.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard_evaluation.report.page import figures
from steelyard_evaluation.report.results import Figure, Metric, Table
from steelyard_evaluation.report.statistics.agreement import make_consistent
from steelyard_evaluation.report.statistics.clusters import student_quantile, sum_clusters, without_rounding
from steelyard_evaluation.report.statistics.intervals import (
    NO_SCALE,
    Estimate,
    Floats,
    Integers,
    Scale,
    encode_texts,
    holm,
    proportion,
    row_clusters,
)
from steelyard_evaluation.report.status import score_values
from steelyard_evaluation.report.summary import score_mean
from steelyard_evaluation.report.wording import bounds, count, difference_text, format_value, small_p

GROUP = "group:"
NONE = "(none)"
MOST_ROWS = 50


@dataclass(frozen=True)
class Group:
    """The answers to the questions with one value of the column."""

    value: str
    questions: int
    """Number of questions with a score; those whose every answer is left out do not count."""
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


def group_columns(scores: pa.Table) -> list[str]:
    """Return the columns that scores were grouped by."""
    return [name.removeprefix(GROUP) for name in scores.column_names if name.startswith(GROUP)]


def group_scores(scores: pa.Table, column: str, lead: Metric, binary: bool) -> GroupedScores:
    """Return the results for each value of the column, in the order of the values."""
    values = score_values(scores)
    scale = (0.0, 1.0) if lead.unit == "share" else lead.scale
    there = np.isfinite(values)
    index = np.asarray(scores["_index_"].to_numpy(), dtype=np.int64)
    codes, names = encode_texts(scores[GROUP + column])
    clusters = row_clusters(scores)
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
        summaries.append((name, int(np.unique(index[inside & there]).size), estimate, difference, p))
    corrected = holm([p for *_, p in summaries])
    groups = [Group(*summary, p) for summary, p in zip(summaries, corrected, strict=True)]
    return GroupedScores(column, tuple(sorted(groups, key=lambda group: _order(group.value))), lead.unit)


def difference_from_rest(
    values: Floats, inside: NDArray[np.bool_], clusters: Integers, scale: Scale | None
) -> tuple[Estimate, float | None]:
    """Return the mean inside less the mean outside, and the p value of Welch's test (1947) over clusters.

    Each side gets one more cluster at both ends of the scale, as Agresti and Caffo add a success and a failure (2000,
    The American Statistician 54:280-288): a group of three right answers does not prove that there is no spread.
    Without a scale there is neither interval nor test.
    """
    from scipy.special import stdtr

    n = int(values.size)
    if not inside.any() or inside.all():
        return Estimate(None, None, None, "nothing to compare with", n), None
    means = values[inside].mean(keepdims=True), values[~inside].mean(keepdims=True)
    gap = float(without_rounding(means[0] - means[1], np.abs(values).max(keepdims=True))[0])
    here, rest = (sum_clusters(values[mask], clusters[mask]) for mask in (inside, ~inside))
    if scale is None or not scale[0] <= values.min() <= values.max() <= scale[1]:
        return Estimate(gap, None, None, f"no interval: {NO_SCALE}", n), None
    if min(here.count, rest.count) < 2:
        return Estimate(gap, None, None, "no interval: a side has fewer than 2 clusters", n), None
    here, rest = (side.plus(side.typical, *scale) for side in (here, rest))
    variances = [side.error**2 for side in (here, rest)]
    variance = sum(variances)
    parts = zip(variances, (here.freedom, rest.freedom), strict=True)
    # Welch and Satterthwaite's, with each side's own degrees of freedom.
    freedom = variance**2 / sum(part**2 / own for part, own in parts)
    error, centre = float(np.sqrt(variance)), here.mean - rest.mean
    half = student_quantile(freedom) * error
    p = float(2 * stdtr(freedom, -abs(centre) / error))
    # The added clusters move the centre towards no difference; the interval has to hold what was seen.
    width = scale[1] - scale[0]
    low, high = max(-width, min(gap, centre - half)), min(width, max(gap, centre + half))
    estimate = Estimate(gap, low, high, "Agresti and Caffo (2000), Welch's t, jackknife", n, error)
    bounds = make_consistent(estimate, p, freedom, exact=True)
    return replace(estimate, low=bounds[0], high=bounds[1]), bounds[2]


def group_table(groups: GroupedScores, lead: Metric) -> Table:
    """Return the groups of one column as a table; if there are very many, those with the lowest scores."""
    listed, more = groups.groups, ""
    if len(listed) > MOST_ROWS:
        listed = tuple(sorted(listed, key=lambda group: figures.lowest_first(group.estimate))[:MOST_ROWS])
        more = f" (the {MOST_ROWS} lowest of {count(len(groups.groups))})"
    rows = tuple(
        (
            group.value,
            group.questions,
            group.estimate if groups.unit == "share" else _number_text(group.estimate, lead.scale),
            difference_text(group.difference, groups.unit, lead.scale),
            small_p(group.p_holm),
        )
        for group in listed
    )
    note = (
        "The difference is the group's value less that of all other questions, with its 95 % confidence interval "
        "(Welch's t test; rows of one cluster count as one). p values are corrected for the number of groups (Holm): "
        "where no group differed, one below 0.05 would be rare. Each interval stands for its own group alone."
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


def _number_text(estimate: Estimate, scale: Scale | None) -> str:
    return f"{format_value(estimate, 'number', scale)} ({bounds(estimate, 'number', scale)})"
