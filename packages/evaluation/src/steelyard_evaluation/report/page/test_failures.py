"""Failures by several rubrics: each question once, with the verdict of every rubric; and blocks that name theirs."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.report.page.failures import RubricFailures, describe_together, wrong_questions
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.report.status import with_status
from steelyard_evaluation.storage.files import FileStore

ROWS = {index: {"prompt": f"say {index}"} for index in range(40)}


def part(rubric: str, *rows: tuple[int, str, bool | None]) -> RubricFailures:
    """The scores of a rubric: of each answer the index of its question, its text, and whether it is right."""
    columns = [
        {
            "_index_": index,
            "_replication_": f"r{sum(other[0] == index for other in rows[:number])}",
            "score": None if right is None else float(right),
            "label": str(index),
            "prediction": said,
            "correct": right,
            "reason": f"{rubric} of {said}",
        }
        for number, (index, said, right) in enumerate(rows)
    ]
    scores = with_status(pa.Table.from_pylist(columns))
    return RubricFailures(rubric, scores, wrong_questions(scores), f"{rubric}.parquet")


def test_a_question_that_two_rubrics_call_wrong_is_shown_once_with_both_verdicts() -> None:
    exact = part("exact", (0, "0", True), (1, "one", False), (2, "two", False))
    judge = part("judge", (0, "0", False), (1, "one", False), (2, "two", True))
    failures = describe_together([exact, judge], 3, ROWS)
    assert {failure.index: dict(failure.verdicts) for failure in failures.shown} == {
        1: {"exact": "wrong", "judge": "wrong"},
        2: {"exact": "wrong", "judge": "right"},
        0: {"exact": "right", "judge": "wrong"},
    }
    assert failures.sentence == (
        "Questions with at least one wrong answer, of 3: 2 by exact, 2 by judge. All are shown, each once."
    )


def test_verdicts_on_several_answers_say_how_many_they_are_about() -> None:
    exact = part("exact", (1, "one", False), (1, "1", True), (1, "ein", False))
    judge = part("judge", (1, "one", True), (1, "1", True), (1, "ein", None))
    (failure,) = describe_together([exact, judge], 1, ROWS).shown
    assert failure.said == ("ein", "one")
    assert dict(failure.verdicts) == {
        "exact": "wrong 2 of 3 times",
        "judge": "right 2 of 3 times, left out 1 of 3 times",
    }


def test_of_many_the_sentence_says_how_many_are_shown_and_which_files_list_all() -> None:
    exact = part("exact", *((index, "no", False) for index in range(30)))
    judge = part("judge", *((index, "no", index < 38) for index in range(40)))
    failures = describe_together([exact, judge], 40, ROWS)
    assert [failure.index for failure in failures.shown] == [*range(24), 38, 39]
    assert failures.sentence == (
        "Questions with at least one wrong answer, of 40: 30 by exact, 2 by judge. "
        "Shown are 26, up to 24 of each rubric; exact.parquet and judge.parquet list all."
    )


@pytest.mark.parametrize("more", [(), ("classification.Classification?bins=5",)])
async def test_every_block_of_figures_and_numbers_names_its_rubric(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    dataset, output = FileStore(tmp_path / "dataset"), FileStore(tmp_path / "output")
    await make_verified(dataset, output)
    (tmp_path / "scratch").mkdir()
    request = Request("classification.Classification", dataset, output, more=more)
    page = (await make_report(request, tmp_path / "scratch")).page.decode()
    titles = [
        *re.findall(r"<figcaption><h3>(.*?)</h3>", page, re.DOTALL),
        *re.findall(r"<caption>(.*?)</caption>", page, re.DOTALL),
    ]
    unnamed = [title for title in titles if "<small>classification.Classification" not in title]
    assert unnamed == ["Digests"]
    assert page.count("got at least one wrong answer") + page.count("at least one wrong answer, of") == 1
