"""Tokens that answers report, whole and in streams."""

from collections.abc import Sequence

import orjson
import pytest

from steelyard_common.types import JsonValue
from steelyard_evaluation.hosted.answers import MAX_EVENT_BYTES, EndlessEvent, EventStream, usage_in
from steelyard_evaluation.hosted.ledger import Tokens


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, Tokens(3, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, Tokens(3, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 50}, Tokens(3, 47)),
        ({"prompt_tokens": 3}, Tokens(3, 0)),
        ({"completion_tokens": 4}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": -1, "completion_tokens": 4}, None),
        ({"prompt_tokens": "3", "completion_tokens": 4}, None),
        ({"prompt_tokens": True, "completion_tokens": 4}, None),
        (None, None),
        ([], None),
    ],
)
def test_tokens_of_an_answer(usage: JsonValue, tokens: Tokens | None) -> None:
    assert usage_in(orjson.dumps({"usage": usage})) == tokens


def test_an_answer_that_is_no_json_reports_nothing() -> None:
    assert usage_in(b"<html>") is None
    assert usage_in(b"[]") is None


PART = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\r\n\r\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
END = b"data: [DONE]\n\n"


def passed(pieces: Sequence[bytes], *, shows_usage: bool) -> tuple[bytes, Tokens | None]:
    stream = EventStream(shows_usage=shows_usage)
    events = [event for piece in pieces for event in stream.feed(piece)]
    return b"".join([*events, *stream.end()]), stream.usage


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_a_stream_passes_unchanged_however_it_is_cut(size: int) -> None:
    whole = b": ping\n\n" + PART + USAGE + END
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert passed(pieces, shows_usage=True) == (whole, Tokens(3, 4))
    assert passed(pieces, shows_usage=False) == (whole.replace(USAGE, b""), Tokens(3, 4))


def test_a_part_with_a_choice_is_never_left_out() -> None:
    part = b'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    assert passed([part, END], shows_usage=False) == (part + END, Tokens(1, 1))


def test_the_end_without_an_empty_line_is_passed_on() -> None:
    assert passed([PART, b"data: [DONE]"], shows_usage=False)[0] == PART + b"data: [DONE]"


QUOTED = b'data: {"choices":[{"delta":{"content":"say [DONE]"}}]}\n\n'


@pytest.mark.parametrize(
    ("last", "done"),
    [
        (END, True),
        (b"data:[DONE]\r\n\r\n", True),
        (b"id: 7\ndata: [DONE]\n\n", True),
        (b"data: [DONE]", True),
        (QUOTED, False),
        (PART, False),
        (b": [DONE]\n\n", False),
    ],
    ids=[
        "its line",
        "without a blank",
        "beside an id",
        "without an empty line",
        "a text",
        "a part",
        "a comment",
    ],
)
def test_only_its_own_line_says_that_a_stream_is_whole(last: bytes, done: bool) -> None:
    """A model may write the word itself; a stream that breaks off after it has not come to its end."""
    stream = EventStream(shows_usage=True)
    assert b"".join([*stream.feed(USAGE + last), *stream.end()]) == USAGE + last
    assert stream.done == done


def test_an_event_without_an_end_is_no_stream() -> None:
    with pytest.raises(EndlessEvent):
        passed([b"x" * (MAX_EVENT_BYTES + 1)], shows_usage=False)
