"""ROUGE (Lin 2004) of an answer against its targets: F1 of n-grams, and of the longest common subsequence."""

import itertools
from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from steelyard.report.rubrics.normalisation import words
from steelyard.report.rubrics.text import f1


def rouge(said: str, truth: Sequence[str]) -> dict[str, float]:
    """Return ROUGE-1, -2 and -L, the best over the targets of each; an answer or target without words scores 0."""
    tokens = words(said)
    candidates = [_rouge(tokens, words(target)) for target in truth]
    return {name: max(scores[name] for scores in candidates) for name in ("1", "2", "L")}


def _rouge(said: list[str], true: list[str]) -> dict[str, float]:
    if not said or not true:
        return {"1": 0.0, "2": 0.0, "L": 0.0}
    # In C++: the table of two answers of thousands of words would take Python seconds.
    common = LCSseq.similarity(said, true)
    return {
        "1": f1(said, true),
        "2": f1(_pairs(said), _pairs(true)) if len(said) > 1 and len(true) > 1 else 0.0,
        "L": 2 * common / (len(said) + len(true)),
    }


def _pairs(tokens: Sequence[str]) -> list[tuple[str, str]]:
    return list(itertools.pairwise(tokens))
