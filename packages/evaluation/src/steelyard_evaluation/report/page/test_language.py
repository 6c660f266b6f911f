"""The language of a report page: the terms of statistics, not words of our own for them."""

import html
import re
from pathlib import Path

import pytest

from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.storage.files import FileStore

OURS = (
    *("one more at either end", "hang together", "that the error implies", "without what chance adds"),
    *("on the log-odds scale", "count as one where", "How sure", "Does its certainty", "taken for"),
    *("can see a difference", "is too small to see", "Of prompts", "Ended by themselves", "the judge judge"),
)


@pytest.fixture
async def text(tmp_path: Path) -> str:
    """Return the text that a reader sees of the example's report, in which each row was asked twice."""
    dataset, output = FileStore(tmp_path / "dataset"), FileStore(tmp_path / "output")
    await make_verified(dataset, output)
    (tmp_path / "scratch").mkdir()
    request = Request("classification.Classification", dataset, output, reducers=("mean",))
    page = (await make_report(request, tmp_path / "scratch")).page.decode()
    visible = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", visible))


async def test_a_page_names_things_as_statistics_does(text: str) -> None:
    for term in (
        *("95 % confidence intervals", "cluster jackknife (", "effective sample size", "Confusion matrix"),
        *(
            "Calibration (reliability diagram)",
            "ROC curves",
            "Precision-recall curves",
            "false positive rate",
        ),
        *("Most frequent confusions", "at a significance level of 5 %", "Student's t"),
        "Confidence intervals treat the answers to one question as one cluster.",
    ):
        assert term in text


@pytest.mark.parametrize("words", OURS)
async def test_a_page_has_no_words_of_our_own_for_it(text: str, words: str) -> None:
    assert words not in text
