"""Results of a rubric, in one shape for every rubric.

The page, report.json and the verifier of a report read nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
from markupsafe import Markup

from steelyard.report.statistics.intervals import Estimate
from steelyard.types import Json

Unit: TypeAlias = Literal["share", "number"]


@dataclass(frozen=True)
class Answer:
    """One row of the output beside its row of the dataset, as the views show them.

    `responses` is None where a row was skipped.
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
    """A row of scores is this, such as a document of several requests."""

    @property
    def present(self) -> int:
        """Number of all rows."""
        return self.scored + self.failed + self.left_out

    @property
    def denominator(self) -> int:
        """Number of rows that a share is a share of."""
        return self.scored + self.failed

    def numbers(self) -> dict[str, int]:
        """The counts in report.json and the like."""
        return {"scored": self.scored, "failed": self.failed, "leftOut": self.left_out}

    def __str__(self) -> str:
        return f"{self.scored:,} scored, {self.failed:,} failed, {self.left_out:,} left out"


@dataclass(frozen=True)
class Bounds:
    """A share if all failed rows were wrong, and if all were right."""

    all_failed_wrong: float
    all_failed_right: float

    def numbers(self) -> dict[str, float]:
        """The bounds in report.json."""
        return {"allFailedWrong": self.all_failed_wrong, "allFailedRight": self.all_failed_right}


@dataclass(frozen=True)
class Metric:
    """A number with its interval; `share` is shown in per cent.

    `scale` is from where to where a number can be, as 0 to 100.
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
    """Rows under named columns; the first cell of a row heads it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing, what it says in a sentence for those who do not see it, and the numbers behind it."""

    title: str
    summary: str
    svg: Markup
    table: Table | None = None


@dataclass(frozen=True)
class Results:
    """Results of one rubric for one evaluation. `numbers` goes into report.json beside the metrics.

    A rubric leaves `counts` alone, and mostly `bounds`: they follow from the status of the rows.
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
    """A way to score. `score` is a pure function of one answer.

    `summarise` sees the scores of all, in the order of the output.

    The table has `_index_`, `_replication_`, `status` and the columns of `scores`, of which `score` (number), `label`,
    `prediction` (text) and `correct` (true or false) are always there: failures are found by `correct`, and shown.

    The status of a row (see status.py) follows from the answer and the score: no answer is `failed`, a score of null is
    `left out`. A rubric that knows better gives `status` beside the columns. `summarise` sees the rows that count; a
    rubric with `sees_left_out = True` gets all of them.

    A rubric that reads files names them in a property `files` (paths): a report keeps a copy of each, with its digest.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the dataset view that it reads; `target|answer` is the first of these that there is, and
        `choices|` may be missing (see rubrics/columns.py).
        """
        ...

    @property
    def scores(self) -> pa.Schema: ...

    def score(self, answer: Answer) -> Json: ...

    def summarise(self, scores: pa.Table) -> Results: ...


@runtime_checkable
class ScoresTogether(Protocol):
    """A rubric that scores several rows as one: a document whose choices are a request each.

    It gets the scores of all rows and gives those of documents, each at the first of its rows. What the whole comes to
    may stand in the schema's metadata.
    """

    def together(self, scores: pa.Table) -> pa.Table: ...
