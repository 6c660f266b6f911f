"""Requests and answers of OpenAI-compatible endpoints, chat and completions.

A request is assembled from bytes that are encoded once around the encoded prompt, and an answer is read straight into
the columns of a stand-alone run's output. `steelyard_evaluation.runs` makes its plans of these.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import orjson
import pyarrow as pa

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import tokens
from steelyard_evaluation.engine.caps import Usage
from steelyard_evaluation.engine.rows import as_text
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSE_INDEX, RESPONSES, Malformed, short
from steelyard_evaluation.engine.stops import MOST_STOPS, cut, envelope, limit_stops, list_stops
from steelyard_evaluation.engine.streams import REASONING

Api = Literal["chat", "completions", "loglikelihood"]
"""`loglikelihood` asks completions, where rows may also ask for the likelihood of their own text (`completions`)."""
Message = Mapping[str, JsonValue]
Encode = Callable[[JsonValue], bytes]
"""A prompt, text or messages, as the body of its request; ValueError when it is neither."""
Read = Callable[[bytes], list[dict[str, JsonValue]]]

_ANSWER: dict[str, pa.DataType] = {
    RESPONSE_INDEX: pa.int64(),
    "text": pa.string(),
    "finish_reason": pa.string(),
    "prompt_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "reasoning": pa.string(),
    "logprob": pa.float64(),
    "uncut": pa.string(),
}
ANSWER = pa.struct(list(pa.schema(_ANSWER)))
"""One response. A number that a service does not report is null; `logprob` is the sum over the answer's tokens, `uncut`
the text as it came where it was cut at a stop that the service was not sent.
"""

_OUTPUT: dict[str, pa.DataType] = {INDEX: pa.int64(), REPLICATION: pa.string(), RESPONSES: pa.list_(ANSWER)}
OUTPUT_SCHEMA = pa.schema(_OUTPUT)

_NULL_TEXT = re.compile(rb'"(?:content|text)"\s*:\s*null')
_UNEXPLAINED = (None, "", "stop")
"""Reasons of ending that do not say why an answer has no text."""
_MOST_TOKENS = 1 << 62
_OURS = "messages", "prompt", "model", "stream", "n"
"""Parameters that are not the caller's: the prompt, and what would change the shape of an answer."""


def check_sampling(sampling: Mapping[str, JsonValue]) -> None:
    """ValueError for a parameter that is ours to set, or that JSON cannot hold."""
    for name in _OURS:
        if name in sampling:
            raise ValueError(f"{name} is not a sampling parameter")
    try:
        orjson.dumps(dict(sampling))
        # orjson writes NaN and infinity as null, which asks for the endpoint's default instead.
        json.dumps(dict(sampling), default=str, allow_nan=False)
    except TypeError as error:
        raise ValueError(str(error)) from error


def within(encode: Encode, sampling: Mapping[str, JsonValue], most_stops: int = MOST_STOPS) -> Encode:
    """The same requests; where they have more stops than the endpoint takes, in an envelope with all of them."""
    stops = list_stops(sampling)
    if len(stops) <= most_stops:
        return encode
    return lambda prompt: envelope(limit_stops(orjson.loads(encode(prompt)), most_stops), stops)


def chat_encoder(model: str, sampling: Mapping[str, JsonValue], before: Sequence[Message] = ()) -> Encode:
    """Requests of `/chat/completions`; `before` are the messages that stand before every prompt."""
    head = b'{"model":' + orjson.dumps(model) + b',"messages":['
    head += b"".join(orjson.dumps(message) + b"," for message in before)
    tail = b"]" + _rest(sampling)
    opening, closing = head + b'{"role":"user","content":', b"}" + tail
    dumps = orjson.dumps

    # The model, the sampling and the system messages are the same in every request: encoded once, they cost
    # nothing here.
    def encode(prompt: JsonValue) -> bytes:
        if type(prompt) is str:
            return opening + dumps(prompt) + closing
        return head + _messages(prompt) + tail

    return encode


def completions_encoder(model: str, sampling: Mapping[str, JsonValue], before: str = "") -> Encode:
    """Requests of `/completions`; `before` is the text that stands before every prompt."""
    head = b'{"model":' + orjson.dumps(model) + b',"prompt":'
    tail = _rest(sampling)
    dumps = orjson.dumps

    def encode(prompt: JsonValue) -> bytes:
        if type(prompt) is not str:
            raise ValueError(f"the prompt must be text, not {short(prompt)}")
        return head + dumps(before + prompt if before else prompt) + tail

    return encode


def reader(api: Api) -> Read:
    """Answers as responses; Malformed says what is wrong with one."""
    return _reader(_CHOICES[api])


def usage_in(body: bytes) -> Usage:
    """The tokens of an answer that cannot be used, where it reports them all the same."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Usage()
    response: dict[str, JsonValue] = {}
    _count(answer.get("usage") if type(answer) is dict else None, response)
    return Usage(response.get("prompt_tokens", 0), response.get("completion_tokens", 0))


def lacks_text(body: bytes) -> bool:
    """Return whether an answer that can be read has null for its text, and nothing in its place.

    Thoughts, a refusal, a call of a tool, or the end at a limit or filter explain it. Cheap for all other answers.
    """
    if not _NULL_TEXT.search(body):
        return False
    answer = orjson.loads(body)
    if "asked" in answer:
        return False
    choice = (answer["body"] if "stops" in answer else answer)["choices"][0]
    if choice.get("finish_reason") not in _UNEXPLAINED:
        return False
    if "message" not in choice:
        return choice.get("text", "") is None
    message = choice["message"]
    return not any(value for name, value in message.items() if name != "role")


def _rest(sampling: Mapping[str, JsonValue]) -> bytes:
    """The request after its prompt, with the closing brace."""
    return b"," + orjson.dumps(dict(sampling))[1:] if sampling else b"}"


def _messages(prompt: JsonValue) -> bytes:
    """A list of messages without its brackets."""
    if not isinstance(prompt, list) or not prompt:
        raise ValueError(f"the prompt must be text or a list of messages, not {short(prompt)}")
    for message in prompt:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError(f"a message must be an object with role and content, not {short(message)}")
    return orjson.dumps(prompt, default=as_text)[1:-1]


def _reader(read_choice: Callable[[dict[str, JsonValue]], dict[str, JsonValue]]) -> Read:
    def read(body: bytes) -> list[dict[str, JsonValue]]:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise Malformed(f"the answer is not JSON: {error}") from error
        stops: Sequence[str] = ()
        if type(answer) is dict:
            # `CompletionsClient` puts several answers into one body under these keys; no endpoint's answer
            # has them at the top.
            if "asked" in answer:
                return [_likelihood_answer(answer)]
            if "stops" in answer:
                stops, answer = answer["stops"], answer["body"]
        choices = answer.get("choices") if type(answer) is dict else None
        if type(choices) is not list or not choices:
            raise Malformed(f"the answer has no choices: {short(answer)}")
        try:
            responses = [read_choice(choice) for choice in choices]
        except (AttributeError, KeyError, TypeError) as error:
            raise Malformed(
                f"a choice has not the shape of one ({type(error).__name__} {error}): {short(choices)}"
            ) from error
        # Numbered by place, not by the endpoint's own `index`: some servers leave it out, some say 0 in every
        # choice.
        for number, response in enumerate(responses):
            response[RESPONSE_INDEX] = number
            if stops and (text := cut(response["text"], stops)) != response["text"]:
                response |= {"uncut": response["text"], "text": text, "finish_reason": "stop"}
        # Usage is of the whole call: with every choice it would be counted several times.
        _count(answer.get("usage"), responses[0])
        return responses

    return read


def _count(usage: JsonValue, response: dict[str, JsonValue]) -> None:
    """The tokens of the whole call, with its first response."""
    if type(usage) is dict:
        for name in ("prompt_tokens", "completion_tokens"):
            # A boolean is an int, and a number beyond 64 bits fits into no column: either would fail the
            # whole part later.
            if type(tokens := usage.get(name)) is int and 0 <= tokens < _MOST_TOKENS:
                response[name] = tokens


def _chat_choice(choice: dict[str, JsonValue]) -> dict[str, JsonValue]:
    message = choice["message"]
    response: dict[str, JsonValue] = {
        "text": _content(message.get("content")),
        "finish_reason": _text(choice.get("finish_reason")),
    }
    if reasoning := _reasoning(message):
        response["reasoning"] = reasoning
    if (logprobs := choice.get("logprobs")) and (tokens := logprobs.get("content")):
        response["logprob"] = float(sum(token["logprob"] for token in tokens))
    return response


def _text_choice(choice: dict[str, JsonValue]) -> dict[str, JsonValue]:
    response: dict[str, JsonValue] = {
        "text": _content(choice["text"]),
        "finish_reason": _text(choice.get("finish_reason")),
    }
    if (logprobs := choice.get("logprobs")) and (tokens := logprobs.get("token_logprobs")):
        # With `echo`, the first token of the prompt has no likelihood and is null.
        response["logprob"] = float(sum(token for token in tokens if token is not None))
    return response


def _likelihood_answer(answer: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The tokens of a continuation as JSON text, or the fault that keeps them from counting."""
    request, bodies = answer["asked"], answer["answers"]
    response: dict[str, JsonValue] = {RESPONSE_INDEX: 0, "finish_reason": None}
    try:
        if "fault" in answer:
            raise tokens.NoLikelihood(answer["fault"])
        choices = [body["choices"][0] for body in bodies]
        lists = [tokens.read_token_list(choice) for choice in choices]
        kept = _continuation(request, answer, lists)
        response["finish_reason"] = _text(choices[0].get("finish_reason"))
    except tokens.NoLikelihood as fault:
        # A fault of the endpoint's lists is kept with the row: asking again would give the same lists.
        kept = {"fault": str(fault)}
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise Malformed(
            f"an answer has not the shape of one ({type(error).__name__} {error}): {short(bodies)}"
        ) from error
    response["text"] = orjson.dumps(kept).decode()
    for body in bodies:
        usage: dict[str, JsonValue] = {}
        _count(body.get("usage"), usage)
        for name, count in usage.items():
            response[name] = response.get(name, 0) + count
    return response


def _continuation(
    request: JsonValue, answer: JsonValue, lists: Sequence[tokens.TokenList]
) -> dict[str, JsonValue]:
    """Return the record of a continuation: the tokens that count, in order, with the endpoint's values of
    each.
    """
    if "windows" in answer:
        spans = [
            tokens.by_ids(one.texts, length, count)
            for one, (length, count) in zip(lists, answer["windows"], strict=True)
        ]
        known: dict[str, JsonValue] = {"windows": len(spans)}
        if answer.get("cut"):
            known["cut"] = answer["cut"]
    else:
        prompt, context = request["prompt"], request["context"]
        length, count = len(prompt) - context, answer["context_tokens"]
        texts = lists[0].texts
        span = (
            tokens.by_texts(texts, prompt, length)
            if count is None
            else tokens.by_count(texts, prompt, length, count)
        )
        spans = [span]
        known = {"context_tokens": count, "inside": span.inside}
    parts = [
        (
            one.texts[span.start : span.end],
            one.logprobs[span.start : span.end],
            one.tops[span.start : span.end],
        )
        for one, span in zip(lists, spans, strict=True)
    ]
    names = ("tokens", "logprobs", "tops")
    return known | {
        name: [value for part in parts for value in part[place]] for place, name in enumerate(names)
    }


_CHOICES: Mapping[Api, Callable[[dict[str, JsonValue]], dict[str, JsonValue]]] = {
    "chat": _chat_choice,
    "completions": _text_choice,
    "loglikelihood": _text_choice,
}


def _content(content: JsonValue) -> str:
    """The text of an answer: empty where there is none (a refusal, a call of a tool, only reasoning)."""
    if type(content) is str:
        return content
    # OpenAI's text is null in a refusal or a call of a tool: an answer without text, not a fault.
    if content is None:
        return ""
    if type(content) is list:
        # Mistral's and some gateways' models answer in parts, of which those that think are not the answer.
        return "".join(_content(part["text"]) for part in content if part.get("type") == "text")
    raise TypeError(f"content {short(content)}")


def _reasoning(message: Mapping[str, JsonValue]) -> str:
    """Return the thoughts that a server keeps apart from the answer; empty where there are none."""
    for name in REASONING:
        if type(thoughts := message.get(name)) is str and thoughts:
            return thoughts
    # OpenRouter's details, and Mistral's parts of the content, whose own texts are parts again.
    parts = [*_list_objects(message.get("reasoning_details")), *_list_objects(message.get("content"))]
    thoughts = [part.get("thinking", part.get("text")) for part in parts if part.get("type") != "text"]
    pieces: list[JsonValue] = []
    for thought in thoughts:
        pieces += (
            [part.get("text") for part in _list_objects(thought)] if type(thought) is list else [thought]
        )
    return "".join(piece for piece in pieces if type(piece) is str)


def _list_objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    """Return the objects in a list; none if it is something else."""
    return [part for part in value if type(part) is dict] if type(value) is list else []


def _text(value: JsonValue) -> str | None:
    return value if type(value) is str else None
