"""A call as it goes to the provider, and the most that it may cost.

The most is known before the call is sent: every token that a model reads has at least a byte of the request, and the
request limits what the model writes. Where spending has a cap, a request that could cost more than that is refused.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

import orjson

from steelyard_common.types import Json, JsonValue
from steelyard_evaluation.hosted.ledger import Tokens
from steelyard_schema.hosted_model import HostedModel

Api = Literal["chat", "completions", "embeddings"]
PATHS: dict[Api, str] = {
    "chat": "chat/completions",
    "completions": "completions",
    "embeddings": "embeddings",
}
MOST_OUTPUT = 10**9
_TEMPLATE_TOKENS = 64
"""Tokens that a provider's template may add to each message."""
_TOOLS_TOKENS = 2048
"""Tokens that a provider may add to describe tools, or the form of an answer."""
_PARAMETERS = frozenset(
    {"messages", "prompt", "model", "max_tokens", "max_completion_tokens", "n", "best_of", "stream",
     "stream_options", "temperature", "top_p", "top_k", "min_p", "stop", "seed", "logprobs", "top_logprobs",
     "logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty", "response_format", "tools",
     "tool_choice", "parallel_tool_calls", "reasoning_effort", "user", "suffix", "echo"}
)  # fmt: skip
"""Parameters that change no price, or whose price is part of the bound."""
_OF_EMBEDDINGS = frozenset({"input", "model", "encoding_format", "dimensions", "user"})
"""Parameters of embeddings that change no price."""
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning", "reasoning_content"}
)
_TEXT_PARTS = frozenset({"text", "refusal"})


class BadCall(ValueError):
    """A request that is not sent; the message names the field."""


class UnknownModel(ValueError):
    """A request for another model than the service's; the message is its name."""


@dataclass(frozen=True)
class Call:
    """A request to the provider, and the most tokens that it may use."""

    path: str
    body: bytes
    most: Tokens
    stream: bool
    shows_usage: bool
    """True where the client wants the last part of a stream, which reports the tokens."""


def prepare_call(raw: bytes, api: Api, model: HostedModel) -> Call:
    """Make the provider's request from a client's. Raises BadCall, UnknownModel."""
    body = _parse(raw)
    _check_model(body, model)
    if api == "embeddings":
        return _embeddings(body, model)
    if model.capped:
        _check_price_is_known(body, model)
    choices = max(_count(body, "n", 1), _count(body, "best_of", 1) if api == "completions" else 1)
    output = _limit_output(body, api, model)
    stream = body.get("stream") is True
    options = body.get("stream_options")
    shows_usage = isinstance(options, dict) and options.get("include_usage") is True
    if stream:
        body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    body["model"] = model.model
    sent = orjson.dumps(body)
    prompts = _prompts(body.get("prompt"))
    messages = len(body["messages"]) if isinstance(body.get("messages"), list) else prompts
    extra = _TOOLS_TOKENS if body.get("tools") or body.get("response_format") else 0
    read = len(sent) + _TEMPLATE_TOKENS * (messages + 1) + extra
    most = Tokens(min(read * choices, MOST_OUTPUT), min(output * choices * prompts, MOST_OUTPUT))
    return Call(PATHS[api], sent, most, stream, shows_usage)


def _embeddings(body: Json, model: HostedModel) -> Call:
    """Make the provider's request for embeddings: the model reads, and writes no token."""
    texts = body.get("input")
    if model.capped:
        _check_parameters(body, _OF_EMBEDDINGS, model)
        if any(isinstance(item, dict) for item in (texts if isinstance(texts, list) else [texts])):
            raise BadCall("input: only text has a known price, and the spending of this service has a cap")
    body["model"] = model.model
    sent = orjson.dumps(body)
    read = len(sent) + _TEMPLATE_TOKENS * (_prompts(texts) + 1)
    most = Tokens(min(read, MOST_OUTPUT), 0)
    return Call(PATHS["embeddings"], sent, most, stream=False, shows_usage=False)


def _prompts(prompt: JsonValue) -> int:
    """Count the prompts of a request; a list of numbers is one prompt, of tokens."""
    several = isinstance(prompt, list) and any(isinstance(item, str | list) for item in prompt)
    return len(prompt) if several and isinstance(prompt, list) else 1


def _parse(raw: bytes) -> Json:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadCall(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadCall("the body should be a JSON object")
    return body


def _check_model(body: Json, model: HostedModel) -> None:
    """Raise UnknownModel for a request that names another model: its answers would be taken for that one's."""
    name = body.get("model")
    if name is None or name == model.model:
        return
    if not isinstance(name, str):
        raise BadCall(f"model: {name!r:.100} should be a text")
    raise UnknownModel(name)


def _limit_output(body: Json, api: Api, model: HostedModel) -> int:
    """Write the limit of an answer's tokens into the request, and return it."""
    limits = [
        body.pop(name) for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None
    ]
    if len(limits) > 1:
        raise BadCall("max_tokens: is given together with max_completion_tokens; one of them may be")
    name = model.output_limit if api == "chat" else "max_tokens"
    if not limits and not model.capped:
        return model.max_output_tokens
    limit = limits[0] if limits else model.max_output_tokens
    if type(limit) is not int or limit < 1:
        raise BadCall(f"{name}: {limit!r:.100} should be a whole number of at least 1")
    if limit > model.max_output_tokens and model.capped:
        raise BadCall(
            f"{name}: {limit} is more than the {model.max_output_tokens} tokens that an answer of this service may have"
        )
    body[name] = limit
    return limit


def _count(body: Json, name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or not 1 <= value <= 1000:
        raise BadCall(f"{name}: {value!r:.100} should be a whole number from 1 to 1000")
    return value


def _check_price_is_known(body: Json, model: HostedModel) -> None:
    """Raise BadCall for what may cost more than the tokens of the request's bytes and of its limit."""
    _check_parameters(body, _PARAMETERS, model)
    tools = body.get("tools")
    for number, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, dict) or tool.get("type") != "function":
            raise BadCall(f"tools.{number}: only functions of the client have a known price")
    messages = body.get("messages")
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        for fault in _message_faults(message, f"messages.{number}"):
            raise BadCall(fault)


def _check_parameters(body: Json, known: Collection[str], model: HostedModel) -> None:
    """Raise BadCall for a parameter that is not known, and that the service does not allow."""
    for name in body:
        if name not in known and name not in model.parameters:
            raise BadCall(
                f"{name}: may change what a call costs, and the spending of this service has a cap; "
                f"the service has to allow it: --parameters {name}"
            )


def _message_faults(message: JsonValue, field: str) -> Iterator[str]:
    if not isinstance(message, dict):
        yield f"{field}: should be an object"
        return
    for name in message.keys() - _MESSAGE_FIELDS:
        yield f"{field}.{name}: its price is not known, and the spending of this service has a cap"
    content = message.get("content")
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(part, dict) or part.get("type") not in _TEXT_PARTS:
            fault = "only text has a known price, and the spending of this service has a cap"
            yield f"{field}.content.{number}: {fault}"
