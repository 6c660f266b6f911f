"""The questions that got wrong answers: which of them a page shows, and how."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from steelyard.report.confusion import NO_ANSWER
from steelyard.report.figures import pixels
from steelyard.report.page import Failure, Failures
from steelyard.report.results import Figure
from steelyard.report.wording import count

MOST_SHOWN = 24
MOST_TEXT = 300
HIDDEN = frozenset({"_index_", "label"})


def wrong_questions(scores: pa.Table) -> pa.Table:
    """One row per question with a wrong answer: what was said, how often it was wrong, the highest certainty of a wrong answer."""
    asked = scores.group_by("_index_").aggregate([([], "count_all")])
    wrong = scores.filter(pa.compute.invert(scores["correct"]))
    sure = wrong["probability"] if "probability" in wrong.column_names else pa.nulls(wrong.num_rows, pa.float64())
    told = wrong.select(["_index_", "label", "prediction"]).append_column("probability", sure)
    said = told.group_by("_index_", use_threads=False).aggregate(
        [("label", "first"), ("prediction", "list"), ("probability", "max"), ("label", "count")]
    )
    joined = said.join(asked, "_index_")
    return joined.sort_by([("probability_max", "descending"), ("_index_", "ascending")])


def describe(wrong: pa.Table, questions: int, rows: Mapping[int, dict[str, Any]]) -> Failures:
    """What a page shows of them: those that the system was surest of, a bounded number, and says so."""
    shown = tuple(_failure(row, rows[row["_index_"]]) for row in wrong.slice(0, MOST_SHOWN).to_pylist())
    return Failures(_sentence(wrong, questions), wrong.num_rows, shown)


def _sentence(wrong: pa.Table, questions: int) -> str:
    total = wrong.num_rows
    if total == 0:
        return f"None of the {count(questions)} questions got a wrong answer."
    text = f"{count(total)} of {count(questions)} questions got at least one wrong answer."
    certain = wrong["probability_max"].null_count < total
    how = "those that the system was surest of" if certain else "the first by row number"
    if total > MOST_SHOWN:
        return f"{text} Shown are {MOST_SHOWN}: {how}; scores.parquet lists all."
    return f"{text} All are shown" + (", the surest first." if certain else ".")


def _failure(row: dict[str, Any], question: dict[str, Any]) -> Failure:
    said = tuple(sorted({NO_ANSWER if text is None else text for text in row["prediction_list"]}))
    picture = _picture(question, row["_index_"])
    return Failure(
        index=row["_index_"],
        label=row["label_first"],
        said=said,
        wrong=row["label_count"],
        asked=row["count_all"],
        probability=row["probability_max"],
        texts=_texts(question),
        picture=picture,
    )


def _picture(question: Mapping[str, Any], index: int) -> Figure | None:
    """The first column that holds n² numbers, drawn."""
    for name, value in question.items():
        if isinstance(value, list) and len(value) >= 16 and all(isinstance(x, int | float) for x in value):
            return pixels(value, f"{name} of row {index}")
    return None


def _texts(question: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Every other column, cut to a readable length."""
    texts = []
    for name, value in question.items():
        if name in HIDDEN or value is None or (isinstance(value, list) and len(value) >= 16):
            continue
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        texts.append((name, text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"))
    return tuple(texts)
