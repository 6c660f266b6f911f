"""Rubrics of text, compared with SQuAD's own script."""

import re
import string
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.report.rubrics import BadRubricArgument, find_rubric
from steelyard_evaluation.report.rubrics.normalisation import normalise
from steelyard_evaluation.report.rubrics.rows import NoField, NoTarget
from steelyard_evaluation.report.rubrics.text import Contains, ExactMatch, NormalisedMatch, Regex, TokenF1

WORDS = st.lists(
    st.sampled_from(["the", "a", "cat", "Cat,", "sat", "an", "(on)", "mat.", "mat", "--", "it's", "3.5"]),
    max_size=8,
).map(" ".join)


def made(text: str | None, target: Any = "Paris", **row: Any) -> Answer:
    return Answer(7, "r", {"target": target} | row, None if text is None else [{"text": text}])


def right(rubric: Any, text: str | None, target: Any = "Paris") -> bool:
    return bool(rubric.score(made(text, target))["correct"])


@pytest.mark.parametrize(
    ("rubric", "text", "target", "expected"),
    [
        (ExactMatch(), "Paris", "Paris", True),
        (ExactMatch(), " Paris\n", "Paris", True),
        (ExactMatch(strip=False), " Paris", "Paris", False),
        (ExactMatch(), "paris", "Paris", False),
        (ExactMatch(ignore_case=True), "PARIS", "Paris", True),
        (ExactMatch(ignore_case=True), "STRASSE", "straße", True),
        (ExactMatch(), "Rome", ["Paris", "Rome"], True),
        (ExactMatch(), "3", 3.0, True),
        (ExactMatch(), "true", True, True),
        (NormalisedMatch(), "The Beatles!", "beatles", True),
        (NormalisedMatch(), "ﬁne  ｔｅａ", "Fine tea", True),
        (NormalisedMatch(), "«Ça»", "ça", True),
        (NormalisedMatch(), "any", "an", False),
        (NormalisedMatch(), "", "the", False),
        (NormalisedMatch(), "a", "the", False),
        (NormalisedMatch(), " The", "the", True),
        (NormalisedMatch(), "", "", True),
        (NormalisedMatch(), "?", "!", False),
        (Contains(), "It is Paris, I think.", "Paris", True),
        (Contains(), "comparison", "paris", True),
        (Contains(normalise=True), "comparison", "paris", False),
        (Contains(normalise=True), "It is (the) Paris.", "PARIS", True),
        (Contains(), "in paris", "Paris", False),
        (Contains(ignore_case=True), "in paris", "Paris", True),
        (Contains(), "red and blue", ["red", "green"], True),
        (Contains(every=True), "red and blue", ["red", "green"], False),
        (Contains(every=True), "red and blue", ["red", "blue"], True),
        (Regex(r"^\d+$"), "42", None, True),
        (Regex(r"^\d+$"), "42 or so", None, False),
        (Regex(r"^paris$", flags="im"), "It is:\nPARIS", None, True),
        (Regex(r"answer: (\w+)", group=1), "answer: Paris", "Paris", True),
        (Regex(r"answer: (\w+)", group=1), "I do not know", "Paris", False),
        (Regex(r"\d+", group=0), "1, then 23", "1", True),
        (Regex(r"\d+", group=0, which="last"), "1, then 23", "23", True),
        (Regex(r"(\d)*x", group=1), "x", "", True),
        (Regex(r"\d+", group=0), "\x02 1 \x03", "1", True),
    ],
)
def test_answers_are_right_or_wrong(rubric: Any, text: str, target: Any, expected: bool) -> None:
    assert right(rubric, text, target) is expected


def _squad(text: str) -> str:
    """The script of SQuAD v1.1, word for word."""

    def remove_articles(text: str) -> str:
        return re.sub(r"\b(a|an|the)\b", " ", text)

    def white_space_fix(text: str) -> str:
        return " ".join(text.split())

    def remove_punc(text: str) -> str:
        exclude = set(string.punctuation)
        return "".join(ch for ch in text if ch not in exclude)

    return white_space_fix(remove_articles(remove_punc(text.lower())))


def _squad_f1(prediction: str, truth: str) -> float:
    said, true = _squad(prediction).split(), _squad(truth).split()
    same = sum((Counter(said) & Counter(true)).values())
    if len(true) == 0 or len(said) == 0:  # v2.0's rule for questions without an answer
        return float(said == true)
    if same == 0:
        return 0.0
    precision, recall = same / len(said), same / len(true)
    return (2 * precision * recall) / (precision + recall)


@given(st.text(st.characters(max_codepoint=127)) | WORDS)
@settings(deadline=None, derandomize=True)
def test_normalisation_is_squads(text: str) -> None:
    assert normalise(text) == _squad(text)


@given(st.text())
@example("C:\u0327")
@settings(deadline=None, derandomize=True)
def test_normalised_text_stays_as_it_is(text: str) -> None:
    once = normalise(text)
    assert normalise(once).split() == [word for word in once.split() if word not in ("a", "an", "the")]


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
@settings(deadline=None, derandomize=True)
def test_token_f1_is_squads_best(text: str, targets: list[str]) -> None:
    score = TokenF1().score(made(text, targets))["score"]
    assert score == pytest.approx(max(_our_f1(text, target) for target in targets))


def _our_f1(text: str, target: str) -> float:
    """SQuAD's F1; texts that its normalisation leaves empty (`a`, `!`) are compared as they stand."""
    if not _squad(text) and not _squad(target):
        return float(text.strip().lower() == target.strip().lower())
    return _squad_f1(text, target)


def test_the_failures_that_token_f1_shows() -> None:
    """Precision 1, recall ½: 2 · 1 · ½ / 1½."""
    scored = TokenF1().score(made("gravity", "under gravity"))
    assert scored["score"] == pytest.approx(2 / 3)
    assert scored["correct"] is True
    assert TokenF1(threshold=0.7).score(made("gravity", "under gravity"))["correct"] is False
    assert TokenF1(threshold=0).score(made("levity", "gravity"))["correct"] is False


def test_squads_answers_are_targets() -> None:
    answers = {"text": ["Denver Broncos", "The Broncos"], "answer_start": [177, 0]}
    scored = ExactMatch(target="answers").score(
        Answer(0, "r", {"answers": answers}, [{"text": "The Broncos"}])
    )
    assert (scored["correct"], scored["label"]) == (True, "Denver Broncos | The Broncos")


def test_the_target_is_the_first_column_that_there_is() -> None:
    row = {"label": "x", "answer": "y"}
    assert ExactMatch().score(Answer(0, "r", row, [{"text": "y"}]))["correct"] is True
    assert ExactMatch(target="label").score(Answer(0, "r", row, [{"text": "y"}]))["correct"] is False


@pytest.mark.parametrize("target", [None, [], [None]])
def test_a_row_without_a_target_is_named(target: object) -> None:
    with pytest.raises(
        NoTarget, match=r"row 7 of the dataset has no target in the column 'target' \(nor 'answer'"
    ):
        ExactMatch().score(made("x", target))


def test_a_field_that_is_not_there_is_named() -> None:
    with pytest.raises(NoField, match="the answer to row 7 has no field 'words'; it has text"):
        ExactMatch(field="words").score(made("x"))


def test_an_answer_of_null_is_none() -> None:
    scored = ExactMatch().score(Answer(0, "r", {"target": "x"}, [{"text": None}]))
    assert (scored["correct"], scored["prediction"]) == (False, None)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*a){20}$", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_no_pattern_hangs(pattern: str) -> None:
    """Each takes exponential time where matching goes back and forth; `re` does not end in a lifetime."""
    start = time.process_time()
    assert right(Regex(pattern), "a" * 20_000 + "!") is False
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("pattern=(", r"argument pattern '\(': .*missing \)"),
        ("pattern=(?=a)", "argument pattern .*invalid perl operator"),
        ("pattern=a&group=1", "argument pattern .*only has 0 parenthesized"),
        ("pattern=a&flags=x", "argument flags: 'x' is not one of i, m, s, U"),
        ("pattern=a&which=third", "argument which: should be 'first' or 'last', and is 'third'"),
        ("", "argument pattern: "),
    ],
)
def test_patterns_are_refused_when_the_rubric_is_made(query: str, fault: str) -> None:
    with pytest.raises(BadRubricArgument, match=fault):
        find_rubric(f"regex?{query}")


def test_a_plus_in_a_pattern_is_a_plus() -> None:
    assert find_rubric(r"regex?pattern=(\d+)%26&group=1") == Regex(r"(\d+)&", group=1)


@given(
    st.text("ab1 \n", max_size=30), st.sampled_from([r"a+", r"(a|b)+1", r"^b", r"\bab\b", r"a*?b", r"[^a]+"])
)
@settings(deadline=None, derandomize=True)
def test_agrees_with_re_where_both_can(text: str, pattern: str) -> None:
    expected = [match[0].strip() for match in re.finditer(pattern, text)]
    for which, place in (("first", 0), ("last", -1)):
        prediction = Regex(pattern, group=0, which=which).score(made(text))["prediction"]  # type: ignore[arg-type]
        assert prediction == (expected[place] if expected else None)
