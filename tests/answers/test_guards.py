"""Every rubric by every guard of docs/answers.md: a rubric that is not in the table, or lacks a guard, fails here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from importlib.metadata import entry_points
from typing import Any

import pytest

from steelyard_evaluation.report.results import Answer, Rubric
from steelyard_evaluation.report.rubrics import GROUP, find_rubric
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.rubrics.rows import NoTarget
from steelyard_evaluation.report.status import with_resolved_status

PARIS = {"target": "Paris", "label": "Paris"}
SUM = {"prompt": "2 + 3?", "kind": "generate_until", "task": "sums", "document": 0}
GRADED = [{"judge": "judge", "verdict": "CORRECT", "score": 1.0, "reason": "", "error": None}]


@dataclass(frozen=True)
class Example:
    """A rubric with a row, and the text of an answer to it that is right."""

    rubric: str
    right: str = "Paris"
    row: Mapping[str, Any] = field(default_factory=lambda: PARIS)
    wrong: str = "Rome"
    name: str = "text"
    """Field of the response with the answer."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the response."""
    decides: bool = True
    """False for a rubric that reads what another program made of the answer."""

    @property
    def compares(self) -> bool:
        return getattr(find_rubric(self.rubric), "compares", None) is not None

    def score(self, text: Any, row: Mapping[str, Any] | None = None, **more: Any) -> Mapping[str, Any]:
        rubric: Rubric = find_rubric(self.rubric)
        response = {self.name: text, "text": text, **self.more, **more}
        answer = Answer(0, "r0", self.row if row is None else row, [response])
        return with_resolved_status(rubric, answer, rubric.score(answer))


EXAMPLES = (
    Example("text.ExactMatch"),
    Example("text.ExactMatch?strip=false&ignore_case=true"),
    Example("text.NormalisedMatch"),
    Example("text.Contains"),
    Example("text.Contains?normalise=true"),
    Example("text.Contains?every=true&ignore_case=true"),
    Example("text.Regex?pattern=^Paris|^\\s*$"),
    Example("text.Regex?pattern=(\\w*)&group=1"),
    Example("text.TokenF1"),
    Example("choice.MultipleChoice", row={"target": "Paris", "choices": ["Rome", "Paris"]}),
    Example("numeric.Close", "5", {"target": 5}, "6"),
    Example(
        'structure.JsonSchema?schema={"enum": ["Paris"]}', '"Paris"', wrong='"Rome"', row={"target": None}
    ),
    Example("classification.Classification", name="label"),
    Example("classification.Classification?normalise=true", name="label"),
    Example("overlap.Bleu", "It is in Paris, France", {"target": "It is in Paris, France"}),
    Example("overlap.ChrF"),
    Example("overlap.Rouge"),
    Example("judge.Verdict", more={"verdicts": GRADED}, decides=False),
    Example("lm_eval.Task?task=sums", "5", SUM, "6", decides=False),
)
EMPTY = (
    "",
    " ",
    "\n\t",
    "\u2003",
    "<think>It is Paris.</think>",
    '<think>It is Paris, 5, "Paris"',
    "[THINK]Paris",
)
ODD_TARGETS = ("the", "A", "!", "...", "-", "«»", "$", "Paris", "5", '{"const": ""}')
deciding = pytest.mark.parametrize(
    "example", [one for one in EXAMPLES if one.decides], ids=lambda one: one.rubric
)
every = pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.rubric)


def test_every_rubric_is_in_the_table() -> None:
    assert {example.rubric.partition("?")[0] for example in EXAMPLES} == set(entry_points(group=GROUP).names)


@deciding
def test_the_example_tells_right_from_wrong(example: Example) -> None:
    assert example.score(example.right)["correct"] is True
    assert example.score(example.wrong)["correct"] is False


@every
@pytest.mark.parametrize(
    "thoughts", [lambda thought: f"<think>{thought}</think>\n\n", lambda thought: f"{thought}</think>\n"]
)
def test_thoughts_before_an_answer_change_nothing(example: Example, thoughts: Callable[[str], str]) -> None:
    for answer, thought in ((example.right, example.wrong), (example.wrong, example.right)):
        plain, thinking = example.score(answer), example.score(thoughts(thought) + answer)
        assert thinking == plain


@every
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("target", ODD_TARGETS)
def test_an_empty_answer_is_right_for_no_target(example: Example, target: str, empty: str) -> None:
    row = {**example.row} | {name: target for name in ("target", "label") if name in example.row}
    try:
        scored = example.score(empty, row, reasoning=example.right)
    except NoTarget:  # the rubric has no such targets
        return
    assert scored["correct"] is False
    assert scored["score"] == 0


EQUAL: tuple[tuple[object, str], ...] = (
    (3.0, "3.0"),
    (3, "3.0"),
    (Decimal("3.10"), "3.1"),
    (0.5, "0.50"),
    (1000, "1e3"),
    (True, "True"),
    (date(2024, 5, 1), "2024-05-01"),
)


@pytest.mark.parametrize(
    "example", [one for one in EXAMPLES if one.compares and one.decides], ids=lambda one: one.rubric
)
@pytest.mark.parametrize(("target", "answer"), EQUAL, ids=str)
def test_an_answer_that_is_equal_to_the_target_scores_as_the_same_text_does(
    example: Example, target: object, answer: str
) -> None:
    row = {**example.row} | {name: target for name in ("target", "label") if name in example.row}
    scored, same = example.score(answer, row), example.score(to_text(target), row)
    assert {**scored, "prediction": None} == {**same, "prediction": None}


@deciding
@pytest.mark.parametrize("target", ODD_TARGETS[:-3])
def test_a_target_without_words_is_no_other_one(example: Example, target: str) -> None:
    row = {**example.row} | {name: target for name in ("target", "label") if name in example.row}
    if "text.Regex?pattern=^" in example.rubric or "JsonSchema" in example.rubric:
        return  # they have no target
    try:
        scored = example.score("an" if target != "A" else "the", row)
    except NoTarget:
        return
    assert scored["correct"] is False
