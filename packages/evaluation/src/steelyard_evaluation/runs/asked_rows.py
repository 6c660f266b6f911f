"""Faults of the rows that are known before the first call: one pass over those that are asked.

`collect.check_request` checks what needs no row; the command line's `run` and its estimate call both.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import INDEX
from steelyard_evaluation.report.errors import RowFault
from steelyard_evaluation.runs.prompts.inputs import map_columns, select_batches
from steelyard_evaluation.runs.request import TARGETS
from steelyard_evaluation.runs.resolve import ResolvedRequest

if TYPE_CHECKING:
    from steelyard_evaluation.report.row_checks import RowCheck

Row = Mapping[str, JsonValue]
_NAMED = 5


def check_asked_rows(resolved: ResolvedRequest) -> tuple[str, ...]:
    """Return warnings about the rows that are asked. Raises UsageError for what no answer could mend. Blocking."""
    _check_template(resolved)
    checks = [*_checks(resolved), *_shot_checks(resolved)]
    wanted = {INDEX, *(name for check in checks for name in check.columns)}
    for batch in select_batches(resolved.rows, resolved.source):
        rows = to_rows(batch.select([name for name in batch.schema.names if name in wanted]))
        for check in checks:
            for row in rows:
                check.take(row)
    return tuple(text for check in checks if (text := check.last_warning()) is not None)


class _Check:
    columns: tuple[str, ...]
    """The columns that it looks at."""

    def take(self, row: Row) -> None:
        """Look at one row."""

    def last_warning(self) -> str | None:
        """Return a warning after the last row."""
        return None


@dataclass
class _NamedCheck(_Check):
    """A check that reports make as well; `name` says whose fault it is."""

    name: str
    check: "RowCheck"

    def __post_init__(self) -> None:
        self.columns = self.check.columns

    def take(self, row: Row) -> None:
        try:
            self.check.take(row)
        except RowFault as fault:
            raise UsageError(f"{self.name}: {fault}") from fault

    def last_warning(self) -> None:
        try:
            self.check.finish()
        except RowFault as fault:
            raise UsageError(f"{self.name}: {fault}") from fault


@dataclass
class _ShotCheck(_Check):
    """A few-shot row that is also asked shows its answer."""

    key: Callable[[Row], bytes]
    shots: frozenset[bytes]
    columns: tuple[str, ...]
    asked: list[JsonValue] = field(default_factory=list)

    def take(self, row: Row) -> None:
        if self.key(row) in self.shots:
            self.asked.append(row[INDEX])

    def last_warning(self) -> str | None:
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
    from steelyard_evaluation.runs.prompts.template import check_texts

    columns = {
        new: schema.field(old).type for new, old in map_columns(schema, source.columns, source.location)
    }
    check_texts(prompt.template, prompt.template_name, prompt.template_line, columns, source.location)


def _checks(resolved: ResolvedRequest) -> Iterator[_Check]:
    request, location = resolved.request, resolved.request.source.location
    brought = INDEX in resolved.rows.schema.names or INDEX in resolved.source.columns
    if not (brought or request.rubrics):
        return
    from steelyard_evaluation.report.row_checks import UniqueIndexes, rubric_checks
    from steelyard_evaluation.report.rubrics import find_rubric

    if brought:
        yield _NamedCheck(location, UniqueIndexes())
    for spec in request.rubrics:
        for check in rubric_checks(find_rubric(spec.reference), resolved.columns, location):
            yield _NamedCheck(f"--rubric {spec.reference}", check)


def _shot_checks(resolved: ResolvedRequest) -> Iterator[_Check]:
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

    yield _ShotCheck(key, frozenset(key(row) for row in prompt.few_shot), columns)
