"""No report is made of labels and answers that have nothing in common; a bad system gets its 0 % all the same."""

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

import pyarrow as pa
import pytest

from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.report.rubrics import GROUP, find_rubric
from steelyard_evaluation.report.rubrics.contract import make_scores
from steelyard_evaluation.report.rubrics.vocabularies import check_common_values

COMPARING = (
    "classification.Classification",
    "classification.Classification?normalise=true",
    "text.ExactMatch",
    "text.NormalisedMatch",
    "text.Contains",
    "text.Contains?normalise=true",
    "text.Regex?pattern=.*&group=0",
    "text.TokenF1",
    "overlap.Bleu",
    "overlap.ChrF",
    "overlap.Rouge",
)
OTHERS = {
    "choice.MultipleChoice": "a target that is no option is an error, and every answer is read as an option",
    "numeric.Close": "a target that is no number is an error, and every answer is read as a number",
    "judge.Verdict": "a judge compares",
    "lm_eval.Task": "lm-eval compares",
    "structure.JsonSchema": "it has no target",
}
"""Rubrics that need no such check, with the reason."""
NOTHING_IN_COMMON: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "words and integers": (["neg", "pos", "pos", "neg"], [0, 1, 1, 0]),
    "integers and words": ([0, 1, 1, 0], ["neg", "pos", "pos", "neg"]),
    "words and numbers as text": (["neg", "pos", "pos", "neg"], ["0", "1", "1", "0"]),
    "words and floats": (["neg", "pos", "pos", "neg"], [0.5, 1.5, 1.5, 0.5]),
    "words and booleans": (["neg", "pos", "pos", "neg"], [False, True, True, False]),
    "booleans and integers": ([False, True, True, False], [0, 1, 1, 0]),
    "letters and integers": (["A", "B", "C", "D"], [0, 1, 2, 3]),
    "one word and one integer": (["pos"] * 4, [1] * 4),
}
LABELS_APART: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "cases": (["neg", "pos", "pos", "neg"], ["Negative", "Positive", "Positive", "Negative"]),
    "other numbers": ([0, 1, 1, 0], [10, 11, 11, 10]),
}
"""Labels of a fixed set that differ; texts may be so by chance."""
HONEST: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "amounts that nobody gave": ([18, 540, 64, 260], ["I cannot say", "Unclear", "No", "It depends"]),
    "labels in sentences": ([0, 1, 1, 0], ["The class is 1", "It is 0", "It is 0", "The class is 1"]),
    "one of many wrong": (["Paris", "Rome", "Bonn", "Oslo"], ["Berlin", "Ghent", "Lyon", "Turin"]),
    "exchanged": (["neg", "pos", "pos", "neg"], ["pos", "neg", "neg", "pos"]),
    "silence": (["neg", "pos", "pos", "neg"], ["", "", "", ""]),
    "no answer": (["neg", "pos", "pos", "neg"], [None, None, None, None]),
    "a single wrong answer": (["pos"], ["neg"]),
}


def check(reference: str, labels: Sequence[Any], said: Sequence[Any]) -> pa.Table:
    rubric = find_rubric(reference)
    scores = make_scores(
        rubric,
        [
            Answer(number, "r0", {"target": label, "label": label}, [{"text": answer, "label": answer}])
            for number, (label, answer) in enumerate(zip(labels, said, strict=True))
        ],
    )
    check_common_values(rubric, scores, reference)
    return scores


def test_every_rubric_is_in_a_table() -> None:
    assert {name.partition("?")[0] for name in COMPARING} | OTHERS.keys() == set(
        entry_points(group=GROUP).names
    )
    assert {find_rubric(name).compares is None for name in COMPARING} == {False}  # type: ignore[attr-defined]


@pytest.mark.parametrize("reference", COMPARING)
@pytest.mark.parametrize("case", NOTHING_IN_COMMON)
def test_there_is_no_number_for_labels_and_answers_without_a_common_value(reference: str, case: str) -> None:
    labels, said = NOTHING_IN_COMMON[case]
    with pytest.raises(ReportFailed, match="have no value in common") as failure:
        check(reference, labels, said)
    assert failure.value.code == "NothingInCommon"
    assert failure.value.message.startswith(f"rubric {reference}: ")
    assert check(reference, [*labels, "the same"], [*said, "the same"]).num_rows == len(labels) + 1


@pytest.mark.parametrize("case", LABELS_APART)
def test_labels_of_a_fixed_set_have_to_be_the_same_ones(case: str) -> None:
    with pytest.raises(ReportFailed, match="have no value in common"):
        check("classification.Classification", *LABELS_APART[case])


@pytest.mark.parametrize("reference", COMPARING)
@pytest.mark.parametrize("case", HONEST)
def test_a_system_that_is_wrong_has_its_number(reference: str, case: str) -> None:
    if case == "labels in sentences" and reference.startswith(
        ("class", "text.Contains", "text.TokenF1", "overlap")
    ):
        return  # a label by itself, or some of the words are right
    if case == "amounts that nobody gave" and reference.startswith("class"):
        return  # as labels, these are other ones
    check(reference, *HONEST[case])
