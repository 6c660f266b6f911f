"""The contract of every rubric, as a check that an author's own test calls:

    check_rubric(MyRubric(), right=Answer(…), wrong=Answer(…))

`right` and `wrong` are two answers; the rubric must score the first higher; a skipped row and rows without a target
are made from them. `BrokenContract` says which promise is broken.
"""

import copy
import dataclasses
import math
from collections.abc import Sequence

import pyarrow as pa

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer, Results, Rubric
from steelyard_evaluation.report.rubrics.rows import COLUMNS
from steelyard_evaluation.report.status import COLUMN as STATUS
from steelyard_evaluation.report.status import LEFT_OUT, STATUSES
from steelyard_schema.columns import optional, value

KEYS = (("_index_", pa.int64()), ("_replication_", pa.string()))


class BrokenContract(AssertionError):
    """The rubric does not keep a promise."""


def check_rubric(rubric: Rubric, right: Answer, wrong: Answer) -> None:
    """Check all promises below; quick, and without files."""
    parameters = getattr(type(rubric), "__dataclass_params__", None)
    _require(bool(getattr(parameters, "frozen", False)), "a rubric is a frozen dataclass")
    check_schema(rubric)
    skipped = dataclasses.replace(right, responses=None)
    for answer in (right, wrong, skipped):
        check_pure(rubric, answer)
    _require(rubric.score(right)["correct"] is True, "the right answer is correct")
    _require(rubric.score(wrong)["correct"] is False, "the wrong answer is not correct")
    _require(rubric.score(right)["score"] > rubric.score(wrong)["score"], "the right answer scores higher")
    check_skipped(rubric.score(skipped))
    check_nameless(rubric, right)
    for answers in (
        [right],
        [wrong],
        [skipped],
        [right] * 5,
        [wrong] * 5,
        [skipped] * 5,
        [right, wrong, skipped] * 4,
    ):
        check_summary(rubric, answers)


def make_scores(rubric: Rubric, answers: Sequence[Answer], cluster: int | None = None) -> pa.Table:
    """Return the table that `summarise` gets; with `cluster`, that many consecutive rows share a cluster."""
    rows = [
        {"_index_": index, "_replication_": "r0", **rubric.score(answer)}
        for index, answer in enumerate(answers)
    ]
    table = pa.Table.from_pylist(rows, pa.schema([*(pa.field(*key) for key in KEYS), *rubric.scores]))
    if cluster is None:
        return table
    clusters = pa.array([index // cluster for index in range(len(rows))], pa.int64())
    return table.append_column("_cluster_", clusters)


def check_schema(rubric: Rubric) -> None:
    """Check that `score`, `label`, `prediction` and `correct` are columns, and none that the table of scores adds."""
    for name, kind in COLUMNS:
        there = name in rubric.scores.names and rubric.scores.field(name).type.equals(kind)
        _require(there, f"`scores` has {name}: {kind}")
    for name in rubric.scores.names:
        taken = name.startswith(("_", "group:")) or name == STATUS
        _require(not taken, f"{name}: names with _ and group: are taken, and status")


def check_pure(rubric: Rubric, answer: Answer) -> None:
    """Check that scoring gives the same twice, changes nothing, and has the columns of the schema."""
    before = copy.deepcopy(answer)
    first, second = rubric.score(answer), rubric.score(answer)
    _require(first == second, "the same answer scores the same twice")
    _require(answer == before, "scoring changes nothing")
    columns = set(first) - {STATUS}
    _require(
        columns == set(rubric.scores.names), f"the row has just the columns of `scores`: {sorted(first)}"
    )
    pa.Table.from_pylist([first], rubric.scores)
    status, score = first.get(STATUS), first["score"]
    _require(status is None or status in STATUSES, f"a status is one of {', '.join(STATUSES)}")
    finite = score is not None and math.isfinite(score)
    _require(finite or status == LEFT_OUT, "the score is a finite number, unless the row is left out")


def check_skipped(scored: Json) -> None:
    """Check that a system gains nothing by staying silent."""
    _require(scored["score"] == 0, "a skipped row scores 0")
    _require(scored["correct"] is False, "a skipped row is not correct")
    _require(scored["prediction"] is None, "a skipped row has no prediction")


def check_nameless(rubric: Rubric, right: Answer) -> None:
    """A row without truth is an error that names the row."""
    needed = [name for name in rubric.columns if not optional(name) and value(name, right.row) is not None]
    if not needed:
        return
    # A number that no other part of a message has by chance.
    empty = Answer(4711, right.replication, dict.fromkeys(right.row), right.responses)
    try:
        rubric.score(empty)
    except ValueError as error:
        _require("4711" in str(error), f"the error of a row without truth names the row: {error}")
    else:
        raise BrokenContract("a row without truth cannot be scored: ValueError")


def check_summary(rubric: Rubric, answers: Sequence[Answer]) -> None:
    """Check that there is a headline and a number, that every interval holds its number, and that the same
    scores give the same results.
    """
    for cluster in (None, 2):
        scores = make_scores(rubric, answers, cluster)
        results = rubric.summarise(scores)
        _require(results == rubric.summarise(scores), "the same scores say the same twice")
        _check_results(results)


def _check_results(results: Results) -> None:
    _require(bool(results.headline), "there is a headline")
    _require(bool(results.metrics), "there is at least one metric")
    names = [metric.name for metric in results.metrics]
    _require(len(set(names)) == len(names), f"metrics have names of their own: {names}")
    for metric in results.metrics:
        estimate = metric.estimate
        if estimate.value is None or estimate.low is None or estimate.high is None:
            continue
        holds = estimate.low - 1e-9 <= estimate.value <= estimate.high + 1e-9
        _require(holds, f"{metric.name}: the interval holds the value: {estimate}")
        if metric.unit == "share":
            _require(
                estimate.low >= 0 and estimate.high <= 1, f"{metric.name}: a share's interval lies in 0 to 1"
            )


def _require(holds: bool, promise: str) -> None:
    if not holds:
        raise BrokenContract(promise)
