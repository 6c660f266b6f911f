"""Every rubric of this package keeps the promises of `contract.py`; a new one needs an example here."""

from dataclasses import dataclass, replace
from importlib.metadata import entry_points

import pyarrow as pa
import pytest

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer, Results, Rubric
from steelyard_evaluation.report.rubrics import GROUP, find_rubric
from steelyard_evaluation.report.rubrics.contract import BrokenContract, check_rubric
from steelyard_evaluation.report.rubrics.text import ExactMatch

ROW: Json = {"target": "Paris"}
SENTENCE: Json = {"target": "The cat sat on the mat, and slept."}
SCHEMA = '{"type":"object","required":["a"]}'


def said(text: str, row: Json) -> Answer:
    return Answer(3, "r0", row, [{"text": text}])


def labelled(label: str, shares: Json | None = None) -> Answer:
    return Answer(3, "r0", {"label": "a"}, [{"label": label, "probabilities": shares}])


def graded(verdict: str, worth: float) -> Answer:
    given = {"judge": "first", "verdict": verdict, "score": worth, "reason": "", "error": None}
    return Answer(3, "r0", ROW, [{"text": "Paris", "verdicts": [given, given | {"judge": "second"}]}])


EXAMPLES: dict[str, tuple[str, Answer, Answer]] = {
    "choice.MultipleChoice": ("", said("(B)", {"target": "B"}), said("A", {"target": "B"})),
    "classification.Classification": (
        "",
        labelled("a", {"a": 0.75, "b": 0.25}),
        labelled("b", {"a": 0.25, "b": 0.75}),
    ),
    "judge.Verdict": ("", graded("CORRECT", 1.0), graded("WRONG", 0.0)),
    "numeric.Close": ("", said("It is 1,000.", {"target": 1000}), said("It is 999.", {"target": 1000})),
    "overlap.Bleu": ("", said(SENTENCE["target"], SENTENCE), said("No", SENTENCE)),
    "overlap.ChrF": ("", said(SENTENCE["target"], SENTENCE), said("", SENTENCE)),
    "overlap.Rouge": ("", said(SENTENCE["target"], SENTENCE), said("No", SENTENCE)),
    "structure.JsonSchema": ("", said('{"a": 1}', {"schema": SCHEMA}), said("{}", {"schema": SCHEMA})),
    "text.Contains": ("", said("It is Paris.", ROW), said("It is Rome.", ROW)),
    "text.ExactMatch": ("", said("Paris", ROW), said("paris", ROW)),
    "text.NormalisedMatch": ("", said("the paris!", ROW), said("Rome", ROW)),
    "text.Regex": ("?pattern=is (\\w+)&group=1", said("It is Paris.", ROW), said("It is Rome.", ROW)),
    "text.TokenF1": ("", said("Paris", ROW), said("Rome", ROW)),
}
INSTALLED = sorted(
    point.name
    for point in entry_points(group=GROUP)
    if point.value.startswith("steelyard_evaluation.report.")
)


@pytest.mark.parametrize("name", INSTALLED)
def test_every_installed_rubric_keeps_the_contract(name: str) -> None:
    arguments, right, wrong = EXAMPLES[name]
    check_rubric(find_rubric(name + arguments), right, wrong)


@pytest.mark.parametrize("name", INSTALLED)
def test_no_scores_have_a_map_which_few_programs_read(name: str) -> None:
    schema = find_rubric(name + EXAMPLES[name][0]).scores
    assert "map<" not in str(schema)


def test_the_rubrics_of_this_project_are_installed() -> None:
    assert set(INSTALLED) >= EXAMPLES.keys()


@dataclass(frozen=True)
class _BrokenRubric:
    """A rubric that breaks the promise that the test chooses."""

    how: str

    @property
    def columns(self) -> tuple[str, ...]:
        return ("target",)

    @property
    def scores(self) -> pa.Schema:
        schema = ExactMatch().scores
        return schema.append(pa.field("_cluster_", pa.int64())) if self.how == "reserved" else schema

    def score(self, answer: Answer) -> Json:
        if self.how == "nameless" and answer.row["target"] is None:
            return ExactMatch().score(replace(answer, row={"target": "x"}))
        if self.how == "silent" and not answer.responses:
            return {"score": 0.0, "label": "x", "prediction": None, "correct": True}
        if self.how == "changes" and isinstance(answer.row, dict):
            answer.row["seen"] = True
        if self.how == "extra":
            return ExactMatch().score(answer) | {"more": 1}
        return ExactMatch().score(answer)

    def summarise(self, scores: pa.Table) -> Results:
        results = ExactMatch().summarise(scores)
        return replace(results, metrics=results.metrics * 2) if self.how == "names" else results


@pytest.mark.parametrize(
    ("how", "promise"),
    [
        ("reserved", "_cluster_: names with _"),
        ("nameless", "a row without truth cannot be scored"),
        ("silent", "a skipped row is not correct"),
        ("changes", "scoring changes nothing"),
        ("extra", "just the columns"),
        ("names", "names of their own"),
    ],
)
def test_a_broken_promise_is_reported(how: str, promise: str) -> None:
    rubric: Rubric = _BrokenRubric(how)
    with pytest.raises(BrokenContract, match=promise):
        check_rubric(rubric, said("Paris", dict(ROW)), said("Rome", dict(ROW)))
    check_rubric(_BrokenRubric("not at all"), said("Paris", dict(ROW)), said("Rome", dict(ROW)))
