"""Results of a rubric, in one form for every rubric. The page, report.json and verification read nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
from markupsafe import Markup

from steelyard_common.types import Json
from steelyard_evaluation.report.statistics.intervals import Estimate

Unit: TypeAlias = Literal["share", "number"]
Compared: TypeAlias = Literal["labels", "texts"]
"""Form of the answers that a rubric compares with targets: labels of a fixed set, or texts, which may say more."""


@dataclass(frozen=True)
class Answer:
    """One row of the output with its row of the dataset, both through their views.

    `responses` is None if the row was skipped.
    """

    index: int
    replication: str
    row: Mapping[str, Any]
    responses: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True)
class Counts:
    """Numbers of rows by status (see status.py)."""

    scored: int
    failed: int
    left_out: int
    noun: str = "row"
    """Noun for a row of scores, such as a document of several requests."""

    @property
    def present(self) -> int:
        """Number of all rows."""
        return self.scored + self.failed + self.left_out

    @property
    def denominator(self) -> int:
        """Number of rows that a share is a share of."""
        return self.scored + self.failed

    def numbers(self) -> dict[str, int]:
        """Return the counts for report.json and audit.json."""
        return {"scored": self.scored, "failed": self.failed, "leftOut": self.left_out}

    def __str__(self) -> str:
        return f"{self.scored:,} scored, {self.failed:,} failed, {self.left_out:,} left out"


@dataclass(frozen=True)
class Bounds:
    """A share if all failed rows were wrong, and if all were right."""

    all_failed_wrong: float
    all_failed_right: float

    def numbers(self) -> dict[str, float]:
        """Return the bounds for report.json."""
        return {"allFailedWrong": self.all_failed_wrong, "allFailedRight": self.all_failed_right}


@dataclass(frozen=True)
class Metric:
    """A number with its interval; a share is shown in per cent.

    `scale` is the least and the greatest possible number, such as 0 and 100.
    """

    name: str
    title: str
    estimate: Estimate
    unit: Unit = "share"
    note: str = ""
    scale: tuple[float, float] | None = None


Cell: TypeAlias = str | int | Estimate


@dataclass(frozen=True)
class Table:
    """Rows under named columns; the first cell of a row is its heading."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing, its summary in a sentence for people who do not see it, and its numbers."""

    title: str
    summary: str
    svg: Markup
    table: Table | None = None


@dataclass(frozen=True)
class Results:
    """Results of one rubric for one evaluation. `numbers` are added to report.json in addition to the metrics.

    A rubric does not set `counts`, and rarely `bounds`: they follow from the status of the rows.
    """

    headline: str
    metrics: tuple[Metric, ...]
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    limits: tuple[str, ...] = ()
    numbers: Json = field(default_factory=dict)
    counts: Counts | None = None
    bounds: Bounds | None = None


class Rubric(Protocol):
    """A way to score. `score` is a pure function of one answer. `summarise` gets the scores of all answers as a table,
    in the order of the output.

    The table has `_index_`, `_replication_`, `status` and the columns of `scores`. Of these, `score` (number),
    `label`, `prediction` (text) and `correct` (true or false) are required: reports show the rows that are not
    `correct`.

    The status of a row (see status.py) follows from the answer and the score: a row without an answer is `failed`, one
    with a score of null is `left out`. A rubric may give `status` itself, in addition to the columns. `summarise` gets
    the rows that are not left out; a rubric with `sees_left_out = True` gets all of them.

    A rubric whose `prediction` should be one of the targets in `label` says so in `compares`: no report is made where
    the two have nothing in common, such as words and numbers.

    A rubric that reads files names them in a property `files` (paths): a report keeps a copy of each, with its digest.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the dataset view that it reads; `target|answer` is the first of these that the dataset has, and
        `choices|` may be missing (see steelyard_schema/columns.py).
        """
        ...

    @property
    def scores(self) -> pa.Schema: ...

    def score(self, answer: Answer) -> Json: ...

    def summarise(self, scores: pa.Table) -> Results: ...


@runtime_checkable
class ScoresTogether(Protocol):
    """A rubric that scores several rows as one: a document whose choices are a request each.

    It gets the scores of all rows and returns those of documents, each with the index of its first row. The schema's
    metadata may have totals.
    """

    def together(self, scores: pa.Table) -> pa.Table: ...
