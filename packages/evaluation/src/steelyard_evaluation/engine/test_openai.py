"""Requests are the JSON that anyone would write, and answers of every shape are responses or Malformed."""

import math
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard_evaluation.engine.openai import (
    ANSWER,
    chat_encoder,
    check_sampling,
    completions_encoder,
    reader,
)
from steelyard_evaluation.engine.shape import Malformed
from steelyard_evaluation.engine.streams import REASONING

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SAMPLING = {"temperature": 0.5, "stop": ["\n", "}"]}


@given(prompt=TEXT, model=TEXT, system=TEXT)
def test_a_chat_request_is_the_json_of_its_parts(prompt: str, model: str, system: str) -> None:
    before = [{"role": "system", "content": system}]
    messages = [*before, {"role": "user", "content": prompt}]
    encoded = chat_encoder(model, SAMPLING, before)(prompt)
    assert orjson.loads(encoded) == {"model": model, "messages": messages, **SAMPLING}
    assert orjson.loads(chat_encoder(model, {}, before)(messages)) == {
        "model": model,
        "messages": before + messages,
    }


@given(prompt=TEXT, before=TEXT)
def test_a_completions_request_is_the_json_of_its_parts(prompt: str, before: str) -> None:
    encoded = completions_encoder("m", SAMPLING, before)(prompt)
    assert orjson.loads(encoded) == {"model": "m", "prompt": before + prompt, **SAMPLING}


@pytest.mark.parametrize("prompt", [None, 7, [], ["text"], [{"content": "no role"}], {"role": "user"}])
def test_a_prompt_that_is_neither_text_nor_messages_is_refused(prompt: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        chat_encoder("m", {})(prompt)


@pytest.mark.parametrize("name", ["messages", "prompt", "model", "stream", "n"])
def test_what_is_ours_is_no_sampling_parameter(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        check_sampling({name: 1})


@pytest.mark.parametrize("value", [math.nan, {"50256": -math.inf}, [math.inf], 2**64, b"bytes"])
def test_what_json_cannot_hold_is_no_sampling_parameter(value: Any) -> None:
    with pytest.raises(ValueError, match=r"not JSON|range"):
        check_sampling({"temperature": value})


def answered(choice: Any, **rest: Any) -> bytes:
    return orjson.dumps({"choices": [choice], **rest})


def test_a_chat_answer_is_read_whole() -> None:
    choice = {
        "message": {"content": "4", "reasoning_content": "2 + 2"},
        "finish_reason": "stop",
        "logprobs": {"content": [{"token": "4", "logprob": -0.25}, {"token": "", "logprob": -0.5}]},
    }
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    (response,) = reader("chat")(answered(choice, usage=usage))
    assert response == {
        "_response_index_": 0,
        "text": "4",
        "finish_reason": "stop",
        "reasoning": "2 + 2",
        "logprob": -0.75,
        **usage,
    }


def test_a_completions_answer_is_read_whole() -> None:
    choice = {"text": " 4", "finish_reason": "length", "logprobs": {"token_logprobs": [None, -1.0]}}
    (response,) = reader("completions")(answered(choice))
    assert response == {"_response_index_": 0, "text": " 4", "finish_reason": "length", "logprob": -1.0}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(None, "", id="only a refusal or a call of a tool"),
        pytest.param(
            [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}],
            "ab",
            id="parts",
        ),
    ],
)
def test_content_of_other_forms_is_text(content: Any, text: str) -> None:
    assert reader("chat")(answered({"message": {"content": content}}))[0]["text"] == text


@pytest.mark.parametrize(
    "message",
    [
        *({"content": "a", name: "it is a"} for name in REASONING),
        {"content": "a", "reasoning_details": [{"type": "reasoning.text", "text": "it is a"}]},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "it is a"}]},
                {"type": "text", "text": "a"},
            ]
        },
        {"content": [{"type": "thinking", "thinking": "it is a"}, {"type": "text", "text": "a"}]},
    ],
    ids=str,
)
def test_thoughts_of_every_spelling_are_kept_apart_from_the_answer(message: Any) -> None:
    response = reader("chat")(answered({"message": message}))[0]
    assert (response["text"], response["reasoning"]) == ("a", "it is a")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"choices":[]}',
        b'{"choices":{}}',
        b'{"choices":[null]}',
        b'{"choices":[{}]}',
        b'{"choices":[{"message":null}]}',
        b'{"choices":[{"message":{"content":7}}]}',
        b'{"choices":[{"message":{"content":[7]}}]}',
        b'{"choices":[{"message":{"content":"a"},"logprobs":[1]}]}',
        b'{"error":{"message":"overloaded"}}',
        b'{"choices":[{"message":{"content":"\\ud800"}}]}',
    ],
)
def test_an_answer_of_another_shape_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        reader("chat")(body)


@given(message=JSON, usage=JSON, finish=JSON, logprobs=JSON)
def test_whatever_json_comes_is_a_row_that_can_be_written_or_malformed(
    message: Any, usage: Any, finish: Any, logprobs: Any
) -> None:
    choice = {
        "message": {"content": "a", "reasoning": message},
        "finish_reason": finish,
        "logprobs": logprobs,
    }
    try:
        responses = reader("chat")(
            answered(choice, usage={"prompt_tokens": usage, "completion_tokens": usage})
        )
    except Malformed:
        return
    pa.array([responses], pa.list_(ANSWER))


def test_of_a_prompt_s_own_tokens_those_of_the_continuation_are_kept() -> None:
    logprobs: dict[str, Any] = {
        "tokens": ["a", " b", "c", " end"],
        "token_logprobs": [None, -0.5, -1.0, -9.0],
        "top_logprobs": [None, {" b": -0.5}, {"c": -1.0, "d": -0.25}, {}],
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    body = {"choices": [{"text": "a bc", "logprobs": logprobs, "finish_reason": "length"}], "usage": usage}
    likelihood = {"asked": {"prompt": "a bc", "context": 1}, "context_tokens": None, "answers": [body]}
    (response,) = reader("loglikelihood")(orjson.dumps(likelihood))
    assert orjson.loads(response["text"]) == {
        "context_tokens": None,
        "inside": False,
        "tokens": [" b", "c"],
        "logprobs": [-0.5, -1.0],
        "tops": [-0.5, -0.25],
    }
    assert (response["prompt_tokens"], response["completion_tokens"]) == (3, 1)
    pa.array([[response]], pa.list_(ANSWER))
    del logprobs["top_logprobs"]
    (response,) = reader("loglikelihood")(orjson.dumps(likelihood))
    assert "fault" in orjson.loads(response["text"])
