"""Results of a rubric that gives one score per answer: the mean or share with its interval and its limits.

Rubrics call `summarise_scores` from their `summarise`; `scoring` adds the common part of all rubrics (groups,
reducers, power).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_evaluation.report.page import figures
from steelyard_evaluation.report.results import Metric, Results
from steelyard_evaluation.report.statistics.intervals import (
    Estimate,
    Integers,
    Scale,
    mean,
    proportion,
    row_clusters,
)
from steelyard_evaluation.report.status import FAILED, SCORED, has_status, without_left_out
from steelyard_evaluation.report.wording import (
    between_text,
    count,
    count_noun,
    format_value,
    interval,
    no_answer_sentence,
    percent,
)


@dataclass(frozen=True)
class ScoreKind:
    """Kind of number that a rubric's scores are."""

    name: str
    title: str
    unit: Literal["share", "number"] = "share"
    """A share lies between 0 and 1, and is shown in per cent."""
    note: str = ""
    binary: bool = True
    """True if answers are right or wrong (`correct`); otherwise `score` is averaged."""
    headline: Callable[[Estimate], str] | None = None
    """Function that gives the report's first sentence, if the usual one does not fit."""
    scale: tuple[float, float] | None = None
    """Least and greatest possible number, such as 0 and 100."""


What = ScoreKind
"""Name that rubrics of earlier versions import."""


def summarise_scores(scores: pa.Table, what: ScoreKind) -> Results:
    """Return the mean score, or the share of right answers. `scoring` adds the counts over all rows."""
    scores = without_left_out(scores)
    clusters = row_clusters(scores)
    lead = (
        right_share(scores, clusters) if what.binary else score_mean(scores, clusters, what.unit, what.scale)
    )
    answered = proportion(np.asarray(has_status(scores, SCORED).to_numpy(), np.bool_), clusters)
    reach = rows_or_answers(scores, lead.n)
    metric = Metric(what.name, what.title, lead, what.unit, what.note, what.scale)
    shares = [metric] if metric.unit == "share" else []
    return Results(
        headline=what.headline(lead) if what.headline else _headline(lead, reach, what),
        metrics=(metric,),
        figures=(figures.intervals("Main metrics with 95 % confidence intervals", shares),) if shares else (),
        limits=limits(scores, lead, answered),
    )


def rows_or_answers(scores: pa.Table, number: int) -> str:
    """Return `20 answers`, or `20 rows` where some of the rows got no answer."""
    missing = pc.any(has_status(scores, FAILED)).as_py()
    return count_noun(number, "row" if missing else "answer")


def right_share(scores: pa.Table, clusters: Integers) -> Estimate:
    """Return the share of answers that are right."""
    return proportion(np.asarray(scores["correct"].to_numpy(), dtype=np.bool_), clusters)


def score_mean(
    scores: pa.Table, clusters: Integers, unit: str = "share", scale: Scale | None = None
) -> Estimate:
    """Return the mean of all finite scores; a share lies between 0 and 1, another number on its scale."""
    values = np.asarray(scores["score"].to_numpy(), dtype=np.float64)
    finite = np.isfinite(values)
    return mean(values[finite], clusters[finite], (0.0, 1.0) if unit == "share" else scale)


def limits(scores: pa.Table, lead: Estimate, answered: Estimate) -> tuple[str, ...]:
    """Return sentences that say what the number does not cover."""
    questions = pc.count_distinct(scores["_index_"]).as_py()
    if questions == 0:
        return ()
    said = [
        f"The figures hold for data like {_questions_text(questions)}; other data may be harder or easier.",
        "The interval covers chance in the choice of questions. It knows nothing of wrong targets.",
    ]
    if "_cluster_" in scores.column_names:
        column = (scores.schema.field("_cluster_").metadata or {}).get(b"column", b"cluster").decode()
        clusters = count(pc.count_distinct(scores["_cluster_"]).as_py())
        said.append(
            f"Confidence intervals treat questions with the same {column} as one cluster ({clusters} clusters)."
        )
    elif questions < scores.num_rows:
        said.append("Confidence intervals treat the answers to one question as one cluster.")
    if answered.value is not None and answered.value < 1:
        missing = round((1 - answered.value) * answered.n)
        said.append(no_answer_sentence(missing))
    return tuple(said)


def _questions_text(questions: int) -> str:
    return "this 1 question" if questions == 1 else f"these {count(questions)} questions"


def _headline(lead: Estimate, reach: str, what: ScoreKind) -> str:
    if lead.value is None:
        return "There are no answers to score."
    if what.binary:
        right = "were right" if "answer" in reach else "were answered right"
        return f"Of {reach}, {percent(lead.value)} {right} (95 % interval {interval(lead)})."
    value, between = (text(lead, what.unit, what.scale) for text in (format_value, between_text))
    return f"{what.title} of {reach}: {value} on average (95 % interval {between})."
