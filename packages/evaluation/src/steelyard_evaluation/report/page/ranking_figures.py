"""The areas under the curves, as a sentence and as a table; and a drawing with a line per class, the one with the least
area dashed, and in red."""

from collections.abc import Sequence

from steelyard_common.types import shorten
from steelyard_evaluation.report.page.figures import MOST_LABEL, draw
from steelyard_evaluation.report.results import Figure, Metric, Table
from steelyard_evaluation.report.statistics.intervals import Estimate
from steelyard_evaluation.report.statistics.ranking import Curve, Ranking, RankingCurves
from steelyard_evaluation.report.wording import count, interval, percent

SIZE = 320
TICKS = tuple((SIZE * k / 5, f"{20 * k} %") for k in range(6))


def area_metrics(ranked: Ranking | None) -> tuple[Metric, ...]:
    if ranked is None:
        return ()
    note = "probability that a row of the class is ranked above another row; 50 % is chance"
    return (
        Metric("roc_auc_macro", "Area under ROC", ranked.roc_auc, note=note),
        Metric("pr_auc_macro", "Area under precision-recall", ranked.pr_auc, note="average precision"),
    )


def curves(ranked: Ranking | None) -> tuple[Figure, ...]:
    return () if ranked is None else (roc_figure(ranked), pr_figure(ranked))


def area_table(ranked: Ranking | None) -> tuple[Table, ...]:
    if ranked is None:
        return ()
    rows = tuple((row.label, row.positives, row.roc_auc, row.pr_auc) for row in ranked.classes)
    note = (
        "Each class against the rest, by the probability that answers gave it. In brackets the 95 % interval."
    )
    return (Table("Areas under the curves of each class", ("Class", "Support", "ROC", "PR"), rows, note),)


def roc_figure(ranking: Ranking) -> Figure:
    worst = min(ranking.classes, key=lambda row: row.roc_auc.value or 0.0)
    summary = (
        f"ROC curves of {_classes(ranking)}. The area under them is {_estimate_text(ranking.roc_auc)} on average; "
        f"the least has class {worst.label} with {_estimate_text(worst.roc_auc)}. Chance is the diagonal, with 50 %."
    )
    rows = tuple((row.label, row.positives, row.roc_auc) for row in ranking.classes)
    return draw(
        "curves.svg.j2",
        "ROC curves",
        summary,
        Table("Area under the ROC curve", ("Class", "Support", "Area"), rows),
        paths=[_line(row.roc) for row in ranking.classes],
        worst=_line(worst.roc),
        worst_label=shorten(worst.label, MOST_LABEL),
        ticks=TICKS,
        diagonal=True,
        across="false positive rate",
        upwards="true positive rate",
        faint=_faint(ranking.classes),
    )


def pr_figure(ranking: Ranking) -> Figure:
    worst = min(ranking.classes, key=lambda row: row.pr_auc.value or 0.0)
    summary = (
        f"Precision-recall curves of {_classes(ranking)}. The area under them (average precision) is "
        f"{_estimate_text(ranking.pr_auc)} on average; "
        f"the least has class {worst.label} with {_estimate_text(worst.pr_auc)}."
    )
    rows = tuple((row.label, row.positives, row.pr_auc) for row in ranking.classes)
    return draw(
        "curves.svg.j2",
        "Precision-recall curves",
        summary,
        Table("Area under the precision-recall curve", ("Class", "Support", "Area"), rows),
        paths=[_steps(row.pr) for row in ranking.classes],
        worst=_steps(worst.pr),
        worst_label=shorten(worst.label, MOST_LABEL),
        ticks=TICKS,
        diagonal=False,
        across="recall",
        upwards="precision",
        faint=_faint(ranking.classes),
    )


def _line(curve: Curve) -> str:
    return "M" + "L".join(
        f"{_number(SIZE * x)} {_number(SIZE * (1 - y))}" for x, y in zip(curve.x, curve.y, strict=True)
    )


def _steps(curve: Curve) -> str:
    """The area is that of steps: the precision of a point holds back to the point before."""
    points = zip(curve.x[1:], curve.y[1:], strict=True)
    start = f"M0 {_number(SIZE * (1 - curve.y[1]))}"
    return start + "".join(f"V{_number(SIZE * (1 - y))}H{_number(SIZE * x)}" for x, y in points)


def _number(value: float) -> str:
    # A tenth of a unit is below what a screen shows, and curves are most of a page's bytes.
    return f"{value:.1f}".removesuffix(".0")


def _faint(classes: Sequence[RankingCurves]) -> float:
    return round(max(0.15, min(0.6, 4 / len(classes))), 2)


def _classes(ranking: Ranking) -> str:
    return f"{count(len(ranking.classes))} classes, each against the rest, in {count(ranking.rows)} answers"


def _estimate_text(estimate: Estimate) -> str:
    return f"{percent(estimate.value or 0.0)} (95 % interval {interval(estimate)})"
