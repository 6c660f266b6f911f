"""Tests for the option that an answer chooses, and which one is right."""

from typing import Any

import pytest

from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.report.rubrics.choice import MultipleChoice
from steelyard_evaluation.report.rubrics.contract import make_scores
from steelyard_evaluation.report.rubrics.option_reading import choose
from steelyard_evaluation.report.rubrics.rows import NoTarget

CITIES = ("London", "Paris", "New York", "York")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("B", "B"),
        ("b", "B"),
        (" (B) ", "B"),
        ("**B**", "B"),
        ("B.", "B"),
        ("B) Paris", "B"),
        ("B: Paris", "B"),
        ("B\nBecause it is.", "B"),
        ("The answer is (B)", "B"),
        ("The answer is B because A is in England.", "B"),
        ("the correct answer is: b.", "B"),
        ("**Answer:** C", "C"),
        ("Answer: **(D)**", "D"),
        ("The final answer is $\\boxed{C}$.", "C"),
        ("The answer is \\boxed{\\text{B}}", "B"),
        ("The answer could be A. But no, the answer is D.", "D"),
        ("Option C is correct", "C"),
        ("Answer: B\n\nOption A is wrong, for it lies in England.", "B"),
        ("B. Option A is wrong.", "B"),
        ("The correct option is **C. New York**", "C"),
        ("The answer is:\n\n(B)", "B"),
        ("Thus the answer (D).", "D"),
        ("My choice: d", "D"),
        ("The options: A) London, B) Paris. Answer: B", "B"),
        ("The answer is Paris.", "B"),
        ("Answer: New York", "C"),
        ("A.", "A"),
        ("A", "A"),
        ("Paris", "B"),
        ("It is paris!", "B"),
        ("New York", "C"),
        ("I say New York, of course", "C"),
        ("York", "D"),
        ("London or Paris", None),
        ("A dog barked", None),
        ("I do not know", None),
        ("Rather (C) than others", "C"),
        ("Not (A) but (B)", "B"),
        ("", None),
        ("E", None),
        ("The answer is a mystery", None),
    ],
)
def test_the_option_chosen(said: str, expected: str | None) -> None:
    assert choose(said, "ABCD", CITIES) == expected


@pytest.mark.parametrize(("said", "expected"), [("J", "J"), ("The answer is I", "I"), ("Paris", None)])
def test_without_a_list_letters_alone_count(said: str, expected: str | None) -> None:
    assert choose(said, "ABCDEFGHIJ") == expected


@pytest.mark.parametrize(
    ("target", "choices", "truth"),
    [
        ("B", CITIES, "B"),
        ("(b)", CITIES, "B"),
        (1, CITIES, "B"),
        ("Paris", CITIES, "B"),
        ("paris ", CITIES, "B"),
        ("2", ("1", "2", "3"), "B"),
        ("A", ("C", "B", "A"), "C"),
        (3, None, "D"),
        ("C", {"text": list(CITIES), "label": list("ABCD")}, "C"),
    ],
)
def test_targets_are_letters_places_or_words(target: Any, choices: Any, truth: str) -> None:
    answer = Answer(0, "r", {"target": target, "choices": choices}, [{"text": truth}])
    assert MultipleChoice().score(answer) == {
        "score": 1.0,
        "label": truth,
        "prediction": truth,
        "correct": True,
        "unread": None,
    }


def test_a_target_that_is_no_choice_is_named() -> None:
    answer = Answer(9, "r", {"target": "Rome", "choices": ["Paris", "London"]}, [{"text": "A"}])
    with pytest.raises(NoTarget, match=r"row 9 of the dataset has the target 'Rome', .*: 'Paris', 'London'"):
        MultipleChoice().score(answer)


@pytest.mark.parametrize("target", ["A", "C", "Paris"])
def test_options_of_the_same_words_are_right_together(target: str) -> None:
    for said, right in (("Paris", True), ("A", True), ("(C)", True), ("B", False), ("Rome", False)):
        row = {"target": target, "choices": ["Paris", "Rome", "Paris"]}
        assert MultipleChoice().score(Answer(0, "r", row, [{"text": said}]))["correct"] is right, said


def test_a_liking_for_a_letter_is_seen() -> None:
    answers = [
        Answer(0, "r", {"target": target}, [{"text": said}])
        for target, said in [("A", "A"), ("B", "A"), ("C", "A"), ("A", "none of them")]
    ]
    rubric = MultipleChoice()
    results = rubric.summarise(make_scores(rubric, answers))
    assert results.tables[-2].rows == (("A", 2, 3, 1), ("B", 1, 0, 0), ("C", 1, 0, 0), ("(none)", 0, 1, 0))


@pytest.mark.parametrize("answer_key", ["1", 1])
def test_labels_of_the_dataset_are_its_letters(answer_key: Any) -> None:
    """ARC numbers the options of some questions from 1, which MMLU's indexes would take for the second one."""
    choices = {"text": ["red", "blue", "green"], "label": ["1", "2", "3"]}
    for said, right in (("1", True), ("The answer is (1).", True), ("2", False), ("red", True), ("A", False)):
        answer = Answer(0, "r", {"target": answer_key, "choices": choices}, [{"text": said}])
        assert MultipleChoice().score(answer)["correct"] is right, said


def test_why_no_option_was_read_is_said() -> None:
    answer = Answer(0, "r", {"target": "A", "choices": CITIES}, [{"text": "The answer is A or C."}])
    assert MultipleChoice().score(answer)["unread"] == "several options: A, C"
    results = MultipleChoice().summarise(make_scores(MultipleChoice(), [answer]))
    assert results.tables[-1].rows == (("several options", 1),)
