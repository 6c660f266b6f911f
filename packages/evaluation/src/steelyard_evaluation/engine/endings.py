"""Decides whether an answer ended by itself or because its server did. Pure; the attempt asks before anything reads it.

A status of 200 proves nothing: a model server that shuts down ends the answers in flight where they are, and says so
in the reason of ending alone. The reason stands where OpenAI's API, vLLM, SGLang, TGI, llama.cpp, Ollama and
Anthropic's API put it, so that an answer is judged before the pipelines of an interface rewrite it.
"""

import re
from collections.abc import Iterator

import orjson

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.call import Failure, Fault, Outcome
from steelyard_evaluation.engine.streams import Unfinished, is_stream, whole_answer

WHOLE = frozenset(
    (
        # OpenAI's API, chat and Responses
        *("stop", "length", "tool_calls", "function_call", "content_filter", "completed"),
        # vLLM, TGI, llama.cpp, Mistral's and Cohere's
        *("eos", "eos_token", "stop_sequence", "word", "limit", "model_length", "repetition", "complete"),
        # Anthropic's API
        *("end_turn", "max_tokens", "tool_use", "tool_call", "pause_turn", "refusal"),
    )
)
"""Reasons of answers that the model ended itself, or that a limit of the request did."""

CUT_SHORT = frozenset(
    (
        *("abort", "aborted", "cancel", "cancelled", "canceled", "interrupted", "shutdown", "disconnect"),
        *("error", "server_error", "network_error", "failed", "timeout", "in_progress", "queued"),
    )
)
"""Reasons of answers that the server ended: the same request gets a whole answer elsewhere, or later."""

_KEY = b'"finish_reason"'
_SAFE = re.compile(rb'\s*:\s*"(?:%b)"' % "|".join(sorted(WHOLE)).encode())
# `done_reason` is Ollama's, `stop_type` llama.cpp's, and `"response"` the object of OpenAI's Responses API.
_RARE = (b'"done_reason"', b'"stop_type"', b'"response"')
"""Keys and values of other services, searched as bytes: a quote inside a text is escaped, so a key is a key."""

UNSTATED = "null"
"""A reason that is there and empty."""


def answer_or_failure(body: bytes) -> Outcome:
    """The answer, put together where it is a stream; or the transient failure of the replica that cut it short."""
    if is_stream(body):
        try:
            body = whole_answer(body)
        except Unfinished as error:
            return cut_short(str(error), body)
    for reason in _reasons(body):
        if reason.lower() in CUT_SHORT:
            return cut_short(f"the server ended it, reason {reason!r}", body)
    return body


def cut_short(how: str, body: bytes) -> Failure:
    return Failure(Fault.TRANSIENT, f"the answer is cut short: {how}", 200, answer=body)


def unknown_reasons(body: bytes) -> list[str]:
    """The reasons of ending that are not known here: their answers count, and a report says how many there are."""
    known = WHOLE | CUT_SHORT
    return [reason[:40] for reason in _reasons(body) if reason.lower() not in known]


def _suspect(body: bytes) -> bool:
    """Return whether the answer may state another reason than a known whole one. Cheap: every answer is checked
    here.
    """
    # Parsing every answer twice would double the cost of a call; nearly all of them say "stop" or "length"
    # here.
    place = body.find(_KEY)
    while place >= 0:
        place += len(_KEY)
        if _SAFE.match(body, place) is None:
            return True
        place = body.find(_KEY, place)
    if any(word in body for word in _RARE):
        return True
    return b'"stop_reason"' in body and b'"choices"' not in body  # Anthropic's API


def _reasons(body: bytes) -> list[str]:
    if not _suspect(body):
        return []
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return []  # its reader reports what is wrong
    items = [
        part
        for item in (answer if isinstance(answer, list) else [answer])
        for part in _endpoint_answers(item)
    ]
    reasons = [reason for item in items if isinstance(item, dict) for reason in _find_reasons(item)]
    return [
        UNSTATED if reason is None or not reason.strip() else reason
        for reason in reasons
        if reason is None or type(reason) is str
    ]


def _endpoint_answers(answer: JsonValue) -> list[JsonValue]:
    """The endpoint's own answers in one that `CompletionsClient` put together, or the answer itself."""
    if isinstance(answer, dict) and "stops" in answer and "body" in answer:
        return [answer["body"]]
    if isinstance(answer, dict) and "asked" in answer and isinstance(answer.get("answers"), list):
        return list(answer["answers"])
    return [answer]


def _find_reasons(answer: dict[str, JsonValue]) -> Iterator[JsonValue]:
    """The reasons in one answer, wherever its kind of service puts them."""
    choices = answer.get("choices")
    for place in [answer, *(choices if isinstance(choices, list) else ())]:
        for part in (place, place.get("details"), place.get("meta_info")) if isinstance(place, dict) else ():
            if isinstance(part, dict) and "finish_reason" in part:
                reason = part["finish_reason"]
                yield reason.get("type") if isinstance(reason, dict) else reason
    for name in ("done_reason", "stop_type"):
        if name in answer:
            # llama.cpp says "none" of an answer that has not ended
            yield "interrupted" if (name, answer[name]) == ("stop_type", "none") else answer[name]
    if answer.get("type") == "message":
        yield answer.get("stop_reason")
    if answer.get("object") == "response":
        # "incomplete" is an answer that ended at a limit
        status = answer.get("status")
        yield "limit" if status == "incomplete" else status
