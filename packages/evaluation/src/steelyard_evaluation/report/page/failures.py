"""The questions that got wrong answers: which of them a page shows, and how."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import shorten
from steelyard_evaluation.report.page.figures import pixels
from steelyard_evaluation.report.page.page import Failure, Failures
from steelyard_evaluation.report.page.rows import MOST_FIELDS, is_vector, readable
from steelyard_evaluation.report.results import Figure
from steelyard_evaluation.report.statistics.confusion import NO_ANSWER
from steelyard_evaluation.report.status import COLUMN as STATUS
from steelyard_evaluation.report.status import SCORED, has_status, with_status, wrong_rows
from steelyard_evaluation.report.wording import count, count_noun

MOST_SHOWN = 24
MOST_TEXT = 420
MOST_ANSWER = 700
NO_VERDICT = "no verdict"
HIDDEN = frozenset({"_index_", "label"})


def wrong_questions(scores: pa.Table) -> pa.Table:
    """The `_index_` of every question with a wrong answer and the highest certainty of one, the surest first.

    Failed rows are distinguished from them, as rows without an answer.
    """
    needed = [name for name in ("_index_", "probability") if name in scores.column_names]
    wrong = scores.select(needed).filter(wrong_rows(scores))
    sure = (
        wrong["probability"]
        if "probability" in wrong.column_names
        else pa.nulls(wrong.num_rows, pa.float64())
    )
    confidences = pa.table({"_index_": wrong["_index_"], "probability": sure})
    # On one thread: with several, the order of the groups differs from run to run, and the page with it.
    questions = confidences.group_by("_index_", use_threads=False).aggregate([("probability", "max")])
    # Confident mistakes first: they show most about a system. Ties by row, so that the page is the same each
    # time.
    return questions.sort_by([("probability_max", "descending"), ("_index_", "ascending")])


def indexes_shown(wrong: pa.Table) -> list[int]:
    return [int(index) for index in wrong["_index_"].slice(0, MOST_SHOWN).to_numpy()]


def describe(
    scores: pa.Table, wrong: pa.Table, questions: int, rows: Mapping[int, Mapping[str, Any]]
) -> Failures:
    """Describe the failures that a page shows: a bounded number, those first that the system was surest of."""
    indexes = indexes_shown(wrong)
    scored = _collect_rows(scores, indexes)
    shown = tuple(_failure(index, scored[index], rows[index]) for index in indexes)
    return Failures(_sentence(wrong, questions, _count_graded(scores)), wrong.num_rows, shown)


@dataclass(frozen=True)
class RubricFailures:
    """The scores of one rubric, and the questions with wrong answers by it."""

    rubric: str
    scores: pa.Table
    wrong: pa.Table
    file: str
    """The name of the file of scores."""


def describe_together(
    parts: Sequence[RubricFailures], questions: int, rows: Mapping[int, Mapping[str, Any]]
) -> Failures:
    """Describe the failures by several rubrics: each question once, with the verdict of every rubric."""
    indexes = list(dict.fromkeys(index for part in parts for index in indexes_shown(part.wrong)))
    scored = [_collect_rows(part.scores, indexes) for part in parts]
    names = [part.rubric for part in parts]
    shown = tuple(
        _describe_failure(index, names, [by_index[index] for by_index in scored], rows[index])
        for index in indexes
    )
    return Failures(_sentence_of_all(parts, len(shown), questions), len(shown), shown)


def _sentence_of_all(parts: Sequence[RubricFailures], shown: int, questions: int) -> str:
    if not shown:
        return _none_wrong(questions, max(_count_graded(part.scores) for part in parts))
    totals = [f"{count(part.wrong.num_rows)} by {part.rubric}" for part in parts]
    text = f"Questions with at least one wrong answer, of {count(questions)}: {', '.join(totals)}."
    if not any(part.wrong.num_rows > MOST_SHOWN for part in parts):
        return f"{text} All are shown, each once."
    files = f"{', '.join(part.file for part in parts[:-1])} and {parts[-1].file}"
    return f"{text} Shown are {shown}, up to {MOST_SHOWN} of each rubric; {files} list all."


def _describe_failure(
    index: int, rubrics: Sequence[str], scored: Sequence[list[dict[str, Any]]], question: Mapping[str, Any]
) -> Failure:
    """Describe the failure by the first rubric that calls it one, with what every rubric says."""
    by = next(rows for rows in scored if any(map(_is_wrong, rows)))
    failure = _failure(index, by, question)
    replication = next(row["_replication_"] for row in by if _is_wrong(row))
    same_answer = [
        row for rows in scored if rows is not by for row in rows if row["_replication_"] == replication
    ]
    graded = tuple(text for row in same_answer for text in _grade_lines(row))
    verdicts = tuple((rubric, _verdict_text(rows)) for rubric, rows in zip(rubrics, scored, strict=True))
    return replace(failure, texts=(*graded, *failure.texts), verdicts=verdicts)


def _verdict_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """`right`, or of several answers `wrong 1 of 3 times`."""
    words = Counter(
        str(row[STATUS]) if row[STATUS] != SCORED else "wrong" if row["correct"] is False else "right"
        for row in rows
    )
    if len(rows) == 1:
        return next(iter(words))
    if wrong := words["wrong"]:
        return f"wrong {wrong} of {len(rows)} times"
    return ", ".join(f"{word} {number} of {len(rows)} times" for word, number in words.items())


def _is_wrong(row: Mapping[str, Any]) -> bool:
    return row["correct"] is False and row[STATUS] == SCORED


def _collect_rows(scores: pa.Table, indexes: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """The scores of every answer to the questions `indexes`."""
    few = with_status(scores).filter(pc.is_in(scores["_index_"], value_set=pa.array(indexes, pa.int64())))
    rows: dict[int, list[dict[str, Any]]] = {index: [] for index in indexes}
    for row in few.to_pylist():
        rows[row["_index_"]].append(row)
    return rows


def _count_graded(scores: pa.Table) -> int:
    """Return the number of questions with an answer that was graded."""
    graded = scores.filter(has_status(scores, SCORED))
    return int(pc.count_distinct(graded["_index_"]).as_py())


def _none_wrong(questions: int, graded: int) -> str:
    if not graded:
        return "No answer was graded."
    if graded < questions:
        return f"None of the {count_noun(graded, 'question')} with graded answers got a wrong one."
    return f"None of the {count_noun(questions, 'question')} got a wrong answer."


def _sentence(wrong: pa.Table, questions: int, graded: int) -> str:
    total = wrong.num_rows
    if total == 0:
        return _none_wrong(questions, graded)
    text = f"{count(total)} of {count(questions)} questions got at least one wrong answer."
    certain = wrong["probability_max"].null_count < total
    how = "those that the system was surest of" if certain else "the first by row number"
    if total > MOST_SHOWN:
        return f"{text} Shown are {MOST_SHOWN}: {how}; scores.parquet lists all."
    return f"{text} All are shown" + (", the surest first." if certain else ".")


def _failure(index: int, scored: Sequence[dict[str, Any]], question: Mapping[str, Any]) -> Failure:
    wrong = [row for row in scored if _is_wrong(row)]
    certain = [row["probability"] for row in wrong if row.get("probability") is not None]
    return Failure(
        index=index,
        label=shorten(wrong[0]["label"] or "?", MOST_ANSWER),
        said=tuple(sorted({shorten(row["prediction"] or NO_ANSWER, MOST_ANSWER) for row in wrong})),
        wrong=len(wrong),
        times=len(scored),
        probability=max(certain, default=None),
        texts=(*_grade_lines(wrong[0]), *readable_texts(question, wrong[0]["label"] or "")),
        picture=_picture(question, index),
    )


def _grade_lines(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The grade that each judge gave a wrong answer, with the reason."""
    for title, before in (("Grade", ""), ("Second judge", "second_")):
        if row.get(f"{before}judge") is None:
            continue
        # The reason repeats what the judge said, so that the fault need not quote it.
        fault = (row.get(f"{before}fault") or NO_VERDICT).partition(" in: ")[0]
        grade = row.get(f"{before}verdict") or fault
        yield title, f"{grade}, by {row[f'{before}judge']}"
        if reason := row.get(f"{before}reason"):
            yield "Reason", _shorten(reason)


def _picture(question: Mapping[str, Any], index: int) -> Figure | None:
    """The first column that holds n² numbers, drawn."""
    for name, value in question.items():
        if isinstance(value, list) and len(value) >= 16 and all(isinstance(x, int | float) for x in value):
            return pixels(value, f"{name} of row {index}")
    return None


def readable_texts(question: Mapping[str, Any], *known: str) -> tuple[tuple[str, str], ...]:
    """The columns that can be read, cut to a readable length; without those with a text that is `known`."""
    texts = []
    for name, value in question.items():
        if name in HIDDEN or value in (None, "", [], {}) or is_vector(value):
            continue
        text = readable(value)
        if text not in known:
            texts.append((name, _shorten(text)))
    return tuple(texts[:MOST_FIELDS])


def _shorten(text: str) -> str:
    """The beginning and the end of a long text, in whole words: the question often stands last."""
    if len(text) <= MOST_TEXT:
        return text
    first, last = text[: MOST_TEXT // 2], text[-MOST_TEXT // 2 :]
    return f"{first.rpartition(' ')[0] or first} … {last.partition(' ')[2] or last}"
