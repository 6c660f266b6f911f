"""Faults of the rows that are known before the first call: one pass over those that are asked.

`collect.check_request` checks what needs no row; the command line's `run` and its estimate call both.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from steelyard.errors import UsageError
from steelyard.evaluation.rows import to_rows
from steelyard.evaluation.shape import INDEX
from steelyard.runs.prompts.inputs import map_columns, selected_batches
from steelyard.runs.request import TARGETS, RunRequest
from steelyard.runs.resolve import ResolvedRequest
from steelyard.schema.columns import present
from steelyard.schema.faults import error_text
from steelyard.types import JsonValue

if TYPE_CHECKING:
    from steelyard.report.results import Rubric

Row = Mapping[str, JsonValue]
_NAMED = 5


def check_asked_rows(resolved: ResolvedRequest) -> tuple[str, ...]:
    """Return warnings about the rows that are asked. Raises UsageError for what no answer could mend. Blocking."""
    _check_template(resolved)
    checks = [_Indexes(resolved), *_options(resolved), *_scorable(resolved), *_shown(resolved)]
    wanted = {INDEX, *(name for check in checks for name in check.columns)}
    for batch in selected_batches(resolved.rows, resolved.source):
        rows = to_rows(batch.select([name for name in batch.schema.names if name in wanted]))
        for check in checks:
            for row in rows:
                check.take(row)
    return tuple(text for check in checks if (text := check.said()) is not None)


class _Check:
    columns: tuple[str, ...]
    """The columns that it looks at."""

    def take(self, row: Row) -> None:
        """Look at one row."""

    def said(self) -> str | None:
        """Return a warning after the last row."""
        return None


class _Indexes(_Check):
    """Each `_index_` that the file brings stands once."""

    columns = ()

    def __init__(self, resolved: ResolvedRequest) -> None:
        self._location = resolved.request.source.location
        self._brought = INDEX in resolved.rows.schema.names or INDEX in resolved.source.columns
        self._seen: set[JsonValue] = set()

    def take(self, row: Row) -> None:
        if not self._brought:
            return
        if row[INDEX] in self._seen:
            raise UsageError(f"{self._location}: two rows have the {INDEX} {row[INDEX]}")
        self._seen.add(row[INDEX])


@dataclass
class _Scorable(_Check):
    """The rubric can score each row, whatever is answered, and some row has a target that is not empty."""

    reference: str
    rubric: "Rubric"
    location: str
    columns: tuple[str, ...]
    target: str | None
    """Column of the targets; None where the rubric reads none."""
    any_target: bool
    """True if every target that is there can be compared with answers."""
    ours: bool
    values_in: Callable[[object], tuple[object, ...]]
    some: bool = False
    rows: int = 0

    def take(self, row: Row) -> None:
        self.rows += 1
        values = () if self.target is None else self.values_in(row.get(self.target))
        self.some = self.some or any(not isinstance(value, str) or value.strip() for value in values)
        if not (values and self.any_target):
            self._score(row, has_target=bool(values) or self.target is None)

    def _score(self, row: Row, *, has_target: bool) -> None:
        """Raise UsageError, in the words of the report, if the rubric cannot score a row."""
        from steelyard.report.errors import RubricFailed
        from steelyard.report.results import Answer
        from steelyard.report.rubrics.calls import rubric_code

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
                raise UsageError(f"--rubric {self.reference}: {error_text(error)}") from error
        except RubricFailed:
            if trusted:
                raise

    def said(self) -> str | None:
        if self.some or self.target is None or not self.rows:
            return None
        raise UsageError(
            f"--rubric {self.reference}: the column {self.target!r} of {self.location} is empty in every row"
        )


@dataclass
class _Options(_Check):
    """A question has no more options than there are letters."""

    reference: str
    columns: tuple[str, ...]
    most: int

    def take(self, row: Row) -> None:
        for name in self.columns:
            options = row.get(name)
            listed: Any = options.get("text") if isinstance(options, dict) else options
            if isinstance(listed, list) and len(listed) > self.most:
                raise UsageError(
                    f"--rubric {self.reference}: row {row[INDEX]} has {len(listed)} options in the column {name!r}; "
                    f"there are letters for {self.most}"
                )


@dataclass
class _Shown(_Check):
    """A few-shot row that is also asked shows its answer."""

    key: Callable[[Row], bytes]
    shots: frozenset[bytes]
    columns: tuple[str, ...]
    asked: list[JsonValue] = field(default_factory=list)

    def take(self, row: Row) -> None:
        if self.key(row) in self.shots:
            self.asked.append(row[INDEX])

    def said(self) -> str | None:
        if not self.asked:
            return None
        named = ", ".join(map(str, self.asked[:_NAMED])) + (", …" if len(self.asked) > _NAMED else "")
        one = len(self.asked) == 1
        return (
            f"{'row' if one else 'rows'} {named} {'is' if one else 'are'} asked, and shown with "
            f"{'its answer' if one else 'their answers'} before each prompt"
        )


def _check_template(resolved: ResolvedRequest) -> None:
    prompt, source, schema = resolved.request.prompt, resolved.source, resolved.rows.schema
    if prompt.template is None:
        return
    from steelyard.runs.prompts.template import check_texts

    columns = {
        new: schema.field(old).type for new, old in map_columns(schema, source.columns, source.location)
    }
    check_texts(prompt.template, prompt.template_name, prompt.template_line, columns, source.location)


def _scorable(resolved: ResolvedRequest) -> Iterator[_Check]:
    for reference, rubric in _rubrics(resolved.request):
        from steelyard.report.rubrics.rows import values_in

        names = rubric.columns
        read = tuple(column for name in names for column in _columns(name, resolved))
        target = getattr(rubric, "target", None)
        targets = _columns(target, resolved) if isinstance(target, str) and target in names else ()
        # Of ours, those that compare texts take all of them; to score millions of rows twice would take long.
        ours = type(rubric).__module__.startswith("steelyard.")
        any_target = ours and getattr(rubric, "compares", None) == "texts"
        yield _Scorable(
            reference,
            rubric,
            resolved.request.source.location,
            read,
            targets[0] if targets else None,
            any_target,
            ours,
            values_in,
        )


def _options(resolved: ResolvedRequest) -> Iterator[_Check]:
    for reference, rubric in _rubrics(resolved.request):
        choices = getattr(rubric, "choices", None)
        if isinstance(choices, str) and (names := _columns(choices, resolved)):
            from steelyard.report.rubrics.choice import LETTERS

            yield _Options(reference, names, len(LETTERS))


def _shown(resolved: ResolvedRequest) -> Iterator[_Check]:
    prompt = resolved.request.prompt
    if not prompt.few_shot:
        return
    names = {prompt.column} if prompt.template is None else {name for row in prompt.few_shot for name in row}
    # Where a template makes the prompt of several columns, the question is all of them but the answer.
    names -= {*TARGETS, prompt.target} if prompt.template is not None else set()
    columns = tuple(sorted(names & set(resolved.columns)))
    if not columns:
        return

    def key(row: Row) -> bytes:
        return orjson.dumps([row.get(name) for name in columns], default=str)

    yield _Shown(key, frozenset(key(row) for row in prompt.few_shot), columns)


def _columns(name: str, resolved: ResolvedRequest) -> tuple[str, ...]:
    """The column that a rubric's argument names: the first of its alternatives that is there."""
    column = present(name, resolved.columns)
    return () if column is None else (column,)


def _rubrics(request: RunRequest) -> Iterator[tuple[str, "Rubric"]]:
    if not request.rubrics:
        return
    from steelyard.report.rubrics import find_rubric

    for spec in request.rubrics:
        yield spec.reference, find_rubric(spec.reference)
