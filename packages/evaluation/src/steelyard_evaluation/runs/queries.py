"""Queries on a run: one row with its history, the row errors, the questions with wrong answers, the tokens."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.bounded_parquet import batches, read_table
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSES
from steelyard_evaluation.report.status import wrong_rows
from steelyard_evaluation.runs.folder import Run


@dataclass(frozen=True)
class Asking:
    """One replication of a row: what came of it."""

    replication: int
    responses: list[dict[str, JsonValue]] | None
    error: Mapping[str, JsonValue] | None = None
    """The last word of its history, where it has one."""
    scores: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    """Scores by the name of their file."""


@dataclass(frozen=True)
class Story:
    """One row: the question, and the result of each request."""

    index: int
    row: Mapping[str, JsonValue]
    askings: tuple[Asking, ...]


def story(run: Run, index: int) -> Story | None:
    """The row of this `_index_`; None when there is none."""
    # Arrow skips the row groups whose statistics exclude the index: one row of millions is found at once.
    here = pc.field(INDEX) == index
    rows = _filter_rows(run.inputs, here)
    if not rows:
        return None
    row = {name: value for name, value in rows[0].items() if name != INDEX}
    errors = {row[REPLICATION]: row for row in _filter_rows(run.error_files, here)}
    scores = {
        name: {row[REPLICATION]: row for row in _filter_rows([path], here)}
        for name, path in run.score_files.items()
    }
    askings = [
        Asking(
            run.replication(answer[REPLICATION]),
            answer[RESPONSES],
            errors.get(answer[REPLICATION]),
            {
                name: by_replication[answer[REPLICATION]]
                for name, by_replication in scores.items()
                if answer[REPLICATION] in by_replication
            },
        )
        for answer in _filter_rows(run.files, here)
    ]
    return Story(index, row, tuple(sorted(askings, key=lambda asking: asking.replication)))


def row_errors(run: Run) -> Iterator[dict[str, JsonValue]]:
    """The rows without an answer, with the remarks about them, in the order of the output."""
    for path in run.files:
        for batch in batches(path, 65536):
            failed = batch.filter(pc.is_null(batch.column(RESPONSES)))
            for row in failed.select([INDEX, REPLICATION]).to_pylist():
                key = row[INDEX], row[REPLICATION]
                yield {**row, **run.row_errors.get(key, {}), REPLICATION: run.replication(row[REPLICATION])}


@dataclass(frozen=True)
class WrongRow:
    """One row with a wrong answer by at least one rubric."""

    index: int
    first: Mapping[str, Mapping[str, JsonValue]]
    """Scores of each rubric's first wrong answer; rubrics that call none of its answers wrong are left out."""
    wrong: Mapping[str, int]
    """Number of each rubric's wrong answers."""
    times: int
    """Number of its answers."""


@dataclass(frozen=True)
class WrongRows:
    """The first rows with wrong answers, and how many there are by each rubric that says what is wrong."""

    first: tuple[WrongRow, ...]
    totals: Mapping[str, int]


def find_wrong_rows(run: Run, most: int) -> WrongRows:
    """The first `most` rows with wrong answers; rows that failed are row errors instead."""
    wrong: dict[str, pa.Table] = {}
    for name, rubric in list_rubrics(run).items():
        scores = read_table(run.score_files[name])
        if "correct" in scores.column_names:
            wrong[rubric] = scores.filter(wrong_rows(scores)).sort_by([(INDEX, "ascending")])
    columns = [np.unique(table[INDEX].to_numpy()) for table in wrong.values()]
    indexes = np.unique(np.concatenate(columns))[:most] if columns else np.asarray([], np.int64)
    by_rubric: dict[str, dict[int, list[dict[str, JsonValue]]]] = {}
    for rubric, table in wrong.items():
        answers: dict[int, list[dict[str, JsonValue]]] = {}
        for score in table.filter(pc.is_in(table[INDEX], pa.array(indexes, pa.int64()))).to_pylist():
            answers.setdefault(score[INDEX], []).append(score)
        by_rubric[rubric] = answers
    rows = tuple(
        WrongRow(
            index,
            {rubric: answers[index][0] for rubric, answers in by_rubric.items() if index in answers},
            {rubric: len(answers[index]) for rubric, answers in by_rubric.items() if index in answers},
            len(run.manifest.replications),
        )
        for index in map(int, indexes)
    )
    totals = {rubric: len(column) for rubric, column in zip(wrong, columns, strict=True)}
    return WrongRows(rows, totals)


def list_rubrics(run: Run) -> dict[str, str]:
    """The rubric of each file of scores, by the name that `score_files` has for it, the leading one first."""
    numbers = run.numbers or {}
    rubrics = {"scores": numbers["rubric"]} if "rubric" in numbers else {}
    rubrics |= {part["scores"].removesuffix(".parquet"): part["rubric"] for part in numbers.get("more") or ()}
    files = run.score_files
    return {name: str(rubric) for name, rubric in rubrics.items() if name in files}


def tokens(run: Run) -> tuple[int, int] | None:
    """Return the tokens of prompts and of answers, as the service counted them; None where it did not."""
    prompt = completion = 0
    counted = False
    for path in run.files:
        for batch in batches(path, 65536, [RESPONSES]):
            responses: Any = pc.list_flatten(batch.column(RESPONSES))
            for_prompt = pc.sum(pc.struct_field(responses, "prompt_tokens")).as_py()
            for_answer = pc.sum(pc.struct_field(responses, "completion_tokens")).as_py()
            counted = counted or for_prompt is not None or for_answer is not None
            prompt, completion = prompt + (for_prompt or 0), completion + (for_answer or 0)
    return (prompt, completion) if counted else None


def _filter_rows(paths: list[Path], filters: Any) -> list[dict[str, JsonValue]]:
    tables = (
        pa.Table.from_batches([batch]).filter(filters) for path in paths for batch in batches(path, 65536)
    )
    return [row for table in tables for row in to_rows(table)]
