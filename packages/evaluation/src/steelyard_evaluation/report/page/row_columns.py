"""Rows as a page's script reads them: column by column, which costs a fraction of row by row, and each text cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import JsonValue
from steelyard_evaluation.report.page.rows import MOST_FIELDS, MOST_TEXT, PICTURE, cut, error_json, readable
from steelyard_evaluation.report.status import COLUMN as STATUS
from steelyard_evaluation.report.status import with_status

Texts = list[str | None]
MOST_SIDE = 32
MOST_VERDICT = 400
ROW_BYTES = 40
"""Bytes of a row without its texts."""


@dataclass(frozen=True)
class RowColumns:
    """Some rows. Names come with their columns; `errors` are by position, one for each row without an answer."""

    indexes: list[int]
    replications: list[int]
    question: list[tuple[str, Texts]]
    answer: list[tuple[str, Texts]]
    scores: list[tuple[list[int | None], list[float | None], Texts, Texts, Texts]]
    errors: Mapping[int, JsonValue]
    pictures: list[str] | None = None

    def __len__(self) -> int:
        return len(self.indexes)

    def fitting(self, start: int, most_rows: int, most_bytes: int) -> int:
        """Return the end of the rows from `start` that fit into the limits; at least one row."""
        texts = [values for _, values in (*self.question, *self.answer)]
        texts += [values for columns in self.scores for values in columns[2:]]
        size = 0
        for k in range(start, min(len(self), start + most_rows)):
            # In bytes, not in characters: a text of Chinese or emoji is three or four times as long.
            size += ROW_BYTES + sum(len((values[k] or "").encode()) for values in texts)
            size += len(self.pictures[k]) if self.pictures else 0
            size += sum(len(str(error)) for error in self.errors.get(k, ()))
            # At least one row, however long: a page without rows would never come to an end.
            if size > most_bytes and k > start:
                return k
        return min(len(self), start + most_rows)

    def data(self, rubrics: Sequence[str], start: int = 0, end: int | None = None) -> dict[str, JsonValue]:
        """The rows from `start` to `end` for the script."""
        here = slice(start, len(self) if end is None else end)
        columns: dict[str, JsonValue] = {
            "rubrics": list(rubrics),
            "i": self.indexes[here],
            "r": self.replications[here],
            "q": [[name, values[here]] for name, values in self.question],
            "a": [[name, values[here]] for name, values in self.answer],
            "s": [[values[here] for values in column] for column in self.scores],
            "e": {str(k - start): error for k, error in self.errors.items() if here.start <= k < here.stop},
        }
        return columns | ({"p": self.pictures[here]} if self.pictures else {})


def make_columns(
    rows: pa.Table,
    question: pa.Table,
    scores: Sequence[pa.Table],
    numbers: Mapping[str, int],
    errors: Mapping[Any, JsonValue],
) -> RowColumns:
    """Rows of the output with their questions and their scores, all in the same order.

    `numbers` numbers the replications; `errors` are records by `_index_` and `_replication_`.
    """
    indexes = [int(index) for index in rows["_index_"].to_numpy()]
    replications: list[Any] = rows["_replication_"].to_pylist()
    responses = rows["responses"].combine_chunks()
    unanswered = np.flatnonzero(np.asarray(pc.is_null(responses)))
    return RowColumns(
        indexes=indexes,
        replications=[numbers.get(name, 0) for name in replications],
        question=_columns({name: question[name] for name in question.column_names if name != "_index_"}),
        answer=_columns(_answers(responses)),
        scores=[_score_columns(table) for table in scores],
        errors={int(k): error_json(errors.get((indexes[k], replications[k]), {})) for k in unanswered},
        pictures=_pictures(question),
    )


def _columns(columns: Mapping[str, Any]) -> list[tuple[str, Texts]]:
    """Return the readable columns in their order, without vectors and empty columns."""
    texts_by_column: list[tuple[str, Texts]] = []
    for name, column in columns.items():
        if len(texts_by_column) < MOST_FIELDS and not _is_vector(column):
            texts = _texts(column)
            if any(texts):
                texts_by_column.append((name, texts))
    return texts_by_column


def _texts(column: Any) -> Texts:
    values = _list(column)
    if pa.types.is_string(column.type):
        return [cut(value, MOST_TEXT) for value in values]
    return [
        None if value is None or value in ([], {}) else cut(readable(value), MOST_TEXT) for value in values
    ]


def _list(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return values


def _is_vector(column: Any) -> bool:
    """Numbers in lists of at least PICTURE."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return False
    if not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        return False
    return (pc.max(pc.list_value_length(column)).as_py() or 0) >= PICTURE


def _answers(responses: Any) -> dict[str, Any]:
    """The fields of the first response of each row, and further responses as they are."""
    kind = responses.type.value_type
    names = [kind.field(k).name for k in range(kind.num_fields) if kind.field(k).name != "_response_index_"]
    lengths = pc.list_value_length(responses)
    if pc.min(lengths).as_py() != 0 and len(responses):
        first = pc.list_element(responses, 0)
    else:  # there are empty lists, which have no element 0
        first = pa.array([answers[0] if answers else None for answers in responses.to_pylist()], kind)
    fields = {name: pc.struct_field(first, name) for name in names}
    if (pc.max(lengths).as_py() or 0) > 1:
        more = [answers[1:] if answers else None for answers in _list(responses)]
        fields["further responses"] = pa.array(
            [readable(answer) if answer else None for answer in more], pa.string()
        )
    return fields


def _score_columns(table: pa.Table) -> tuple[list[int | None], list[float | None], Texts, Texts, Texts]:
    """Right or wrong (null where the rubric knows neither), score, the text taken as the answer, target, status.

    All of them are null of a row that has no scores of its own, as the further requests of a document.
    """
    right: list[int | None] = table["correct"].cast(pa.int8()).to_pylist()
    score = pc.round(table["score"], 4)
    # JSON has no NaN and no infinity; the browser's parser would refuse the whole page.
    finite: list[float | None] = pc.if_else(pc.is_finite(score), score, None).to_pylist()
    prediction, label = (
        [cut(value, MOST_VERDICT) for value in _list(table[name])] for name in ("prediction", "label")
    )
    # A judge may grade an answer wrong that is the target: "1048, should be 1048" would say nothing.
    label = [
        None if verdict == 0 and target == said else target
        for verdict, target, said in zip(right, label, prediction, strict=True)
    ]
    return right, finite, prediction, label, with_status(table)[STATUS].to_pylist()


def _pictures(question: pa.Table) -> list[str] | None:
    """The first column of n² numbers, each row as n² letters from `a`, the lowest, to `q`."""
    column = next((question[name] for name in question.column_names if _is_vector(question[name])), None)
    if column is None or column.null_count:
        return None
    whole: Any = column.combine_chunks()
    lengths = np.unique(np.asarray(pc.list_value_length(whole)))
    if lengths.size != 1 or round(lengths[0] ** 0.5) ** 2 != lengths[0] or lengths[0] > MOST_SIDE**2:
        return None
    values = np.asarray(whole.flatten(), dtype=np.float64).reshape(-1, lengths[0])
    # A vector may hold NaN, and nulls become it: there is no grey for them.
    if not np.isfinite(values).all():
        return None
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    scale = np.divide(16, high - low, out=np.zeros_like(low), where=high > low)
    letters = (97 + np.rint(scale * (values - low))).astype(np.uint8)
    return [row.tobytes().decode("ascii") for row in letters]
