"""Answers that say nothing are counted whatever the outputs look like, and reported in one sentence."""

import pyarrow as pa
import pytest

from steelyard_common.types import JsonValue
from steelyard_evaluation.report.silence import Silence

EMPTY, CUT, WHOLE = ("", "stop"), ("It is", "length"), ("4", "stop")
CASES: dict[str, tuple[list[tuple[str | None, str | None]], str | None]] = {
    "all empty": ([EMPTY, (None, "stop"), (" \n", None)], "Every answer is empty (3 of 3)."),
    "all cut off": (
        [CUT, ("4", "max_tokens")],
        "Every answer is cut off at its token limit (2 of 2): raise max_tokens.",
    ),
    "all empty and cut off": (
        [("", "length")],
        "Every answer is empty, and cut off at its token limit (1 of 1).",
    ),
    "empty or cut off": ([EMPTY, CUT, CUT], "No answer is whole: 1 of 3 are empty, the others cut off."),
    "all thoughts": (
        [("<think>4</think>", "stop"), ("<THINK>4", "stop"), ("4</think>", None), EMPTY],
        "Every answer is empty (4 of 4).",
    ),
    "thoughts before an answer": ([("<think>5</think>4", "stop"), EMPTY], None),
    "one says something": ([EMPTY, CUT, WHOLE], None),
    "calls of tools": ([("", "tool_calls"), (None, "function_call")], None),
    "no answer": ([], None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_without_a_whole_answer_says_so(name: str) -> None:
    answers, sentence = CASES[name]
    silence = Silence()
    rows: list[JsonValue] = [[{"text": text, "finish_reason": reason}] for text, reason in answers]
    answer = pa.struct([("text", pa.string()), ("finish_reason", pa.string())])
    silence.add(pa.array([*rows, None], pa.list_(answer)))
    assert silence.sentence == sentence


def test_outputs_of_other_services_are_not_guessed_at() -> None:
    silence = Silence()
    silence.add(pa.array([[{"score": 1.0}]]))
    silence.add(pa.array([[{"text": 3, "finish_reason": 1}]]))
    assert (silence.answers, silence.empty, silence.cut) == (2, 0, 0)
    assert silence.sentence is None
