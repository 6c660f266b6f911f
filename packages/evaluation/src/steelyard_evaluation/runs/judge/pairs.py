"""One verdict from several of one judge on one answer: asked more than once, or in both orders of a pair.

`judge.verdicts` calls `merged` for each answer. Models prefer an answer for its place (Zheng et al. 2023, "Judging
LLM-as-a-Judge"): each pair is asked in both orders, and an answer wins only where it is preferred in both; a verdict
that changes with the order is a tie.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard_common.types import JsonValue

WIN, TIE, LOSS = "win", "tie", "loss"
HALF = 0.5


@dataclass(frozen=True)
class ParsedVerdict:
    """One verdict, as the parser read it; of a pair the answer stood first (order 0) or second (order 1)."""

    order: int
    time: int
    verdict: Mapping[str, JsonValue]


def merge_verdicts(said: Sequence[ParsedVerdict], pairwise: bool) -> dict[str, JsonValue]:
    """One verdict of all; the reasons of those that it follows, and why there is none where none could be read."""
    if pairwise:
        return _merge_pairs(said)
    if len(said) == 1:
        return dict(said[0].verdict)
    return _merge_times(said)


def _merge_times(said: Sequence[ParsedVerdict]) -> dict[str, JsonValue]:
    """The mean worth of the grades that could be read, and the most frequent of them."""
    read = [one.verdict for one in said if one.verdict.get("score") is not None]
    if not read:
        return {"reason": said[0].verdict.get("reason"), "error": said[0].verdict.get("error")}
    counts = Counter(str(verdict["verdict"]) for verdict in read)
    grade, times = counts.most_common(1)[0]
    reason = next(verdict.get("reason") for verdict in read if verdict["verdict"] == grade)
    summary = f"({times} of {len(said)} times {grade})\n{reason}"
    return {
        "verdict": grade,
        "score": sum(float(one["score"]) for one in read) / len(read),
        "reason": summary,
    }


def _merge_pairs(said: Sequence[ParsedVerdict]) -> dict[str, JsonValue]:
    times: dict[int, dict[int, Mapping[str, JsonValue]]] = {}
    for one in said:
        times.setdefault(one.time, {})[one.order] = one.verdict
    # A pair that was read in one order only says nothing about the order's part in it: it does not count.
    pairs = [
        (both[0], both[1])
        for both in times.values()
        if len(both) == 2 and all(verdict.get("score") is not None for verdict in both.values())
    ]
    if not pairs:
        unread = next((one.verdict for one in said if one.verdict.get("error")), said[0].verdict)
        return {"reason": unread.get("reason"), "error": unread.get("error") or "one order was not asked"}
    worths = [pair_score(float(first["score"]), float(second["score"])) for first, second in pairs]
    score = sum(worths) / len(worths)
    first, second = pairs[0]
    reasons = [f"[shown {place}] {one['reason']}" for place, one in (("first", first), ("second", second))]
    return {
        "verdict": WIN if score > HALF else LOSS if score < HALF else TIE,
        "score": score,
        "reason": "\n\n".join(reasons),
        "pairs": len(pairs),
        "flips": sum(_flipped(float(first["score"]), float(second["score"])) for first, second in pairs),
    }


def pair_score(first: float, second: float) -> float:
    """Return the score of the answer in a pair: the mean of both orders where they agree, else one half.

    `first` and `second` are the scores of whatever was shown first, in the order in which the answer stood first and
    in the order in which it stood second.
    """
    in_order, swapped = first, 1 - second
    if (in_order > HALF and swapped > HALF) or (in_order < HALF and swapped < HALF):
        return (in_order + swapped) / 2
    return HALF


def _flipped(first: float, second: float) -> bool:
    """Return whether the verdict is another one in the other order."""
    return (first > HALF, first < HALF) != (1 - second > HALF, 1 - second < HALF)
