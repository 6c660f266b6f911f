"""Faults of a dataset's rows that no answer could mend, known before any answer is paid for.

`eval run` and its estimate look at the rows that they ask, and `faulty_rows` in a process of the API at those of a
dataset that a report or an audit procedure names.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.shape import INDEX
from steelyard_evaluation.report.errors import RowFault, RubricFailed
from steelyard_evaluation.report.results import Answer, Rubric
from steelyard_evaluation.report.rubrics.calls import rubric_code
from steelyard_evaluation.report.rubrics.choice import LETTERS
from steelyard_evaluation.report.rubrics.rows import values_in
from steelyard_schema.columns import present
from steelyard_schema.faults import error_text

Row = Mapping[str, JsonValue]


class RowCheck(Protocol):
    """One pass over rows. Both methods raise RowFault."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at, besides the number of a row."""
        ...

    def take(self, row: Row) -> None:
        """Look at one row."""
        ...

    def finish(self) -> None:
        """Judge all rows together, after the last one."""
        ...


def rubric_checks(rubric: Rubric, there: Collection[str], location: str) -> Iterator[RowCheck]:
    """Yield the checks of a rubric, for rows with the columns `there`; messages name the `location` of the rows."""
    choices = getattr(rubric, "choices", None)
    if isinstance(choices, str) and (column := present(choices, there)) is not None:
        yield _Options((column,), len(LETTERS))
    names = rubric.columns
    read = tuple(column for name in names if (column := present(name, there)) is not None)
    target = getattr(rubric, "target", None)
    # Of ours, those that compare texts take all of them; to score millions of rows twice would take long.
    ours = type(rubric).__module__.partition(".")[0] == __name__.partition(".")[0]
    yield _Scorable(
        rubric,
        location,
        read,
        present(target, there) if isinstance(target, str) and target in names else None,
        ours and getattr(rubric, "compares", None) == "texts",
        ours,
    )


@dataclass
class UniqueIndexes:
    """Each `_index_` stands once."""

    columns: tuple[str, ...] = ()
    _seen: set[JsonValue] = field(default_factory=set)

    def take(self, row: Row) -> None:
        """Raise RowFault for a number that an earlier row has."""
        if row[INDEX] in self._seen:
            raise RowFault(f"two rows have the {INDEX} {row[INDEX]}; each number may stand once")
        self._seen.add(row[INDEX])

    def finish(self) -> None:
        """Every number was compared with those before it."""


@dataclass
class _Options:
    """A question has no more options than there are letters."""

    columns: tuple[str, ...]
    most: int

    def take(self, row: Row) -> None:
        for name in self.columns:
            options = row.get(name)
            listed: Any = options.get("text") if isinstance(options, dict) else options
            if isinstance(listed, list) and len(listed) > self.most:
                raise RowFault(
                    f"row {row[INDEX]} has {len(listed)} options in the column {name!r}; "
                    f"there are letters for {self.most}"
                )

    def finish(self) -> None:
        """Every row was looked at by itself."""


@dataclass
class _Scorable:
    """The rubric can score each row, whatever is answered, and some row has a target that is not empty."""

    rubric: Rubric
    location: str
    columns: tuple[str, ...]
    target: str | None
    """Column of the targets; None where the rubric reads none."""
    any_target: bool
    """True if every target that is there can be compared with answers."""
    ours: bool
    some: bool = False
    rows: int = 0

    def take(self, row: Row) -> None:
        self.rows += 1
        values = () if self.target is None else values_in(row.get(self.target))
        self.some = self.some or any(not isinstance(value, str) or value.strip() for value in values)
        if not (values and self.any_target):
            self._score(row, has_target=bool(values) or self.target is None)

    def _score(self, row: Row, *, has_target: bool) -> None:
        """Raise RowFault, in the words of the report, if the rubric cannot score a row."""
        index: Any = row[INDEX]
        read = {name: row[name] for name in (INDEX, *self.columns)}
        trusted = self.ours or not has_target
        # Reports score skipped rows as well: each rubric takes a row without an answer. The code of others may forget
        # it, and be right wherever there is one: of them, only an error that names the row counts.
        try:
            with rubric_code(type(self.rubric), f"in score (row {index})", but=ValueError):
                self.rubric.score(Answer(index, "r0", read, None))
        except ValueError as error:
            if trusted or f"row {index}" in str(error):
                raise RowFault(error_text(error)) from error
        except RubricFailed:
            if trusted:
                raise

    def finish(self) -> None:
        if not self.some and self.target is not None and self.rows:
            raise RowFault(f"the column {self.target!r} of {self.location} is empty in every row")
