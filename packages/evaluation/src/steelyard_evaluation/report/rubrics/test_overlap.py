"""BLEU, chrF and ROUGE compared with sacrebleu's and Lin's own numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from steelyard_evaluation.report.results import Answer, Results
from steelyard_evaluation.report.rubrics.contract import make_scores
from steelyard_evaluation.report.rubrics.overlap import Bleu, ChrF, Rouge, rouge

SENTENCES = st.lists(
    st.sampled_from(["the", "The", "cat", "sat", "on", "mat", ".", "don't", "ﬁsh", "3.5", "日本"]), max_size=9
).map(" ".join)
CORPORA = st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3)), min_size=1, max_size=6)
FEW = settings(deadline=None, derandomize=True)
Corpus = list[tuple[str, list[str]]]


def made(corpus: Corpus) -> list[Answer]:
    return [Answer(k, "r", {"target": refs}, [{"text": text}]) for k, (text, refs) in enumerate(corpus)]


def summary(rubric: Any, corpus: Corpus) -> Results:
    results = rubric.summarise(make_scores(rubric, made(corpus)))
    assert isinstance(results, Results)
    return results


def columns(corpus: Corpus) -> list[list[str | None]]:
    """sacrebleu takes the first references of all, then the second of all; None for a row without one."""
    most = max(len(refs) for _, refs in corpus)
    return [[refs[k] if k < len(refs) else None for _, refs in corpus] for k in range(most)]


def has_words(corpus: Corpus) -> bool:
    """Return whether there is a number: sacrebleu gives 0 to a corpus of right answers that are all empty."""
    return any(text.strip() or all(ref.strip() for ref in refs) for text, refs in corpus) and (
        any(ref.strip() for _, refs in corpus for ref in refs)
        or not any(sentence(0, text, refs) for text, refs in corpus)
    )


def sentence(theirs: float, text: str, refs: list[str]) -> float:
    """Return sacrebleu's score of a sentence; an empty answer to an empty target is right here, and 0 there."""
    return theirs if text.strip() or all(ref.strip() for ref in refs) else 100.0


@given(CORPORA, st.booleans())
@FEW
def test_bleu_is_sacrebleus(corpus: Corpus, lowercase: bool) -> None:
    rubric = Bleu(lowercase=lowercase)
    theirs = BLEU(lowercase=lowercase).corpus_score([text for text, _ in corpus], columns(corpus))  # type: ignore[arg-type]
    value = summary(rubric, corpus).metrics[0].estimate.value
    assert value == (pytest.approx(theirs.score, abs=1e-9) if has_words(corpus) else None)
    for answer, (text, refs) in zip(made(corpus), corpus, strict=True):
        one = BLEU(lowercase=lowercase, effective_order=True).sentence_score(text, refs).score
        assert rubric.score(answer)["score"] == pytest.approx(sentence(one, text, refs), abs=1e-9)


@given(CORPORA, st.sampled_from([0, 2]))
@FEW
def test_chrf_is_sacrebleus(corpus: Corpus, word_order: int) -> None:
    rubric = ChrF(word_order=word_order)
    theirs = CHRF(word_order=word_order).corpus_score([text for text, _ in corpus], columns(corpus))  # type: ignore[arg-type]
    value = summary(rubric, corpus).metrics[0].estimate.value
    assert value == (pytest.approx(theirs.score, abs=1e-9) if has_words(corpus) else None)
    for answer, (text, refs) in zip(made(corpus), corpus, strict=True):
        one = CHRF(word_order=word_order).sentence_score(text, refs).score
        assert rubric.score(answer)["score"] == pytest.approx(sentence(one, text, refs), abs=1e-9)


def test_the_example_of_sacrebleus_readme() -> None:
    """https://github.com/mjpost/sacrebleu, "Using SacreBLEU from Python": BLEU = 48.53, chrF2 = 59.73."""
    refs = [
        ["The dog bit the man.", "The dog had bit the man."],
        ["It was not unexpected.", "No one was surprised."],
        ["The man bit him first.", "The man had bitten the dog."],
    ]
    said = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
    corpus = list(zip(said, refs, strict=True))
    assert summary(Bleu(), corpus).metrics[0].estimate.value == pytest.approx(48.53, abs=0.005)
    assert summary(ChrF(), corpus).metrics[0].estimate.value == pytest.approx(59.73, abs=0.005)


def test_a_skipped_row_shortens_the_corpus() -> None:
    corpus = [("The dog bit the man.", ["The dog bit the man."]), ("It is so.", ["It is so."])]
    answers = [*made(corpus), Answer(2, "r", {"target": "And so on, and on."}, None)]
    rubric = Bleu()
    skipped = rubric.summarise(make_scores(rubric, answers)).metrics[0].estimate.value
    theirs = BLEU().corpus_score(
        [*(text for text, _ in corpus), ""], [[*(refs[0] for _, refs in corpus), "And so on, and on."]]
    )
    assert skipped == pytest.approx(theirs.score)
    assert skipped is not None
    assert skipped < 90


def test_the_interval_is_the_bootstraps() -> None:
    """Compare with sacrebleu's own resampling of the same corpus: half the width of its interval differs
    little.
    """
    chance = np.random.default_rng(1)
    letters = np.array(list("abcdefgh"))
    refs = [" ".join(letters[chance.integers(0, 8, 12)]) for _ in range(200)]
    said = [" ".join(w if chance.random() < 0.7 else "x" for w in ref.split()) for ref in refs]
    ours = summary(Bleu(), [(s, [r]) for s, r in zip(said, refs, strict=True)]).metrics[0].estimate
    theirs = BLEU(references=[refs]).corpus_score(said, None, n_bootstrap=1000)
    assert ours.low is not None
    assert ours.high is not None
    assert (ours.high - ours.low) / 2 == pytest.approx(theirs._ci, rel=0.15)
    assert ours.error == pytest.approx(theirs._ci / 1.96, rel=0.15)


@pytest.mark.parametrize(
    ("said", "target", "expected"),
    [
        # Lin 2004, section 3: S1 against S2 and S3
        ("police kill the gunman", "police killed the gunman", {"L": 3 / 4}),
        ("the gunman kill police", "police killed the gunman", {"L": 2 / 4}),
        # the tests of Google's rouge_score
        ("testing", "testing one two", {"1": 0.5, "2": 0.0, "L": 0.5}),
        ("testing one two", "testing", {"1": 0.5, "2": 0.0, "L": 0.5}),
        ("testing one two", "testing one", {"2": 2 / 3}),
        ("", "testing", {"1": 0.0, "2": 0.0, "L": 0.0}),
        # its README
        (
            "The quick brown dog jumps on the log.",
            "The quick brown fox jumps over the lazy dog",
            {"1": 12 / 17, "L": 10 / 17},
        ),
    ],
)
def test_rouge_of_published_examples(said: str, target: str, expected: dict[str, float]) -> None:
    values = rouge(said, [target])
    assert {name: values[name] for name in expected} == pytest.approx(expected)


def _lcs(one: list[str], other: list[str]) -> int:
    row = [0] * (len(other) + 1)
    for word in one:
        row = [
            0,
            *(
                before + 1 if word == there else max(above, 0)
                for there, before, above in zip(other, row, row[1:], strict=False)
            ),
        ]
        for k in range(1, len(row)):
            row[k] = max(row[k], row[k - 1])
    return row[-1]


@given(SENTENCES, SENTENCES)
@FEW
def test_rouge_l_is_the_longest_common_subsequence(said: str, target: str) -> None:
    one, other = (
        text.lower().replace("ﬁ", "fi").replace(".", " ").replace("'", " ").split() for text in (said, target)
    )
    expected = 2 * _lcs(one, other) / (len(one) + len(other)) if one and other else 0.0
    assert rouge(said, [target])["L"] == pytest.approx(expected)


def test_rouge_of_several_targets_is_the_best_of_each_by_itself() -> None:
    assert rouge("a b c", ["a b", "c b a"]) == {"1": 1.0, "2": pytest.approx(2 / 3), "L": pytest.approx(0.8)}


def test_the_variant_leads() -> None:
    corpus = [("a b c", ["a c b"]), ("x", ["x"])]
    assert [metric.name for metric in summary(Rouge(variant="2"), corpus).metrics] == [
        "rouge2",
        "rouge1",
        "rougeL",
    ]
    assert summary(Rouge(), corpus).headline.startswith("ROUGE-L of 2 answers: 83.3 %")


def test_a_corpus_of_one_question_has_no_interval() -> None:
    estimate = summary(Bleu(), [("a b c d e", ["a b c d f"])]).metrics[0].estimate
    assert (estimate.low, estimate.high) == (None, None)
