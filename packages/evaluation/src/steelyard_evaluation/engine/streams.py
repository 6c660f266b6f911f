"""Answers that come in pieces (server-sent events), put together to what the service would have answered in one.

Without the piece that says how it ended, a stream is not an answer: its server died, or a proxy closed it.
"""

from collections.abc import Iterator

import orjson

from steelyard_common.refused_calls import find_reason
from steelyard_common.types import JsonValue

_BEGINNINGS = (b"data:", b"event:", b"id:", b"retry:", b":")
_DONE = "[DONE]"
REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking", "thoughts")
"""Fields of a message with its thoughts, which do not belong to the answer: SGLang, DeepSeek and earlier vLLM say
`reasoning_content`, OpenRouter and later vLLM `reasoning`, Ollama `thinking`.
"""
_JOINED = ("content", *REASONING, "refusal")


class Unfinished(ValueError):
    """The stream stops before its end, or reports an error."""


def is_stream(body: bytes) -> bool:
    """Judges by the first bytes: no JSON value begins as an event does."""
    return body.lstrip()[:8].startswith(_BEGINNINGS) if body[:1] not in (b"{", b"[") else False


def whole_answer(body: bytes) -> bytes:
    """One answer in JSON; Unfinished where its end never came."""
    pieces = list(_pieces(body))
    if not pieces:
        raise Unfinished("the stream has no event")
    for piece in pieces:
        if piece.get("error"):
            raise Unfinished(f"the stream reports an error: {find_reason(orjson.dumps(piece))}")
    try:
        whole = _merge(pieces) if any("choices" in piece for piece in pieces) else _last(pieces)
        return orjson.dumps(whole)
    except (AttributeError, TypeError) as error:
        raise Unfinished(f"the stream has not the shape of one: {error}") from error


def _pieces(body: bytes) -> Iterator[dict[str, JsonValue]]:
    # Events may end their lines by CRLF, CR or LF (the standard of server-sent events).
    text = body.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    for event in text.split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in event.split("\n") if line.startswith("data:")]
        data = "\n".join(lines)
        if not data or data == _DONE:
            continue
        try:
            piece = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise Unfinished(f"an event of the stream is not JSON: {find_reason(data.encode())}") from error
        if not isinstance(piece, dict):
            raise Unfinished(f"an event of the stream is not an object: {data[:80]!r}")
        yield piece


def _merge(pieces: list[dict[str, JsonValue]]) -> dict[str, JsonValue]:
    """Pieces of OpenAI's chat or completions, as the answer in one."""
    answer: dict[str, JsonValue] = {}
    choices: dict[int, dict[str, JsonValue]] = {}
    for piece in pieces:
        # `usage` comes in a last piece without choices, or is null in every piece but the last.
        answer |= {name: value for name, value in piece.items() if name != "choices" and value is not None}
        for part in piece.get("choices") or ():
            _add(choices.setdefault(part.get("index", 0), {"finish_reason": None}), part)
    if not choices or any(choice["finish_reason"] is None for choice in choices.values()):
        raise Unfinished("the stream stops without saying how the answer ended")
    if isinstance(kind := answer.get("object"), str):
        answer["object"] = kind.removesuffix(".chunk")
    return {**answer, "choices": [{"index": index, **choices[index]} for index in sorted(choices)]}


def _add(choice: dict[str, JsonValue], part: dict[str, JsonValue]) -> None:
    if isinstance(delta := part.get("delta"), dict):
        _add_delta(choice.setdefault("message", {"role": "assistant", "content": None}), delta)
    if isinstance(text := part.get("text"), str):
        choice["text"] = choice.get("text", "") + text
    if isinstance(logprobs := part.get("logprobs"), dict):
        lists = choice.setdefault("logprobs", {})
        for name, value in logprobs.items():
            lists[name] = [*(lists.get(name) or ()), *value] if isinstance(value, list) else lists.get(name)
    for name, value in part.items():
        # An empty reason of ending says no more than null does: it comes with pieces, and no answer ends by it.
        if name == "finish_reason" and not _stated(value):
            continue
        if name not in {"delta", "text", "logprobs", "index"} and value is not None:
            choice[name] = value


def _add_delta(message: dict[str, JsonValue], delta: dict[str, JsonValue]) -> None:
    for name, value in delta.items():
        if name == "content" and (isinstance(value, list) or isinstance(message.get(name), list)):
            message[name] = [*_parts(message.get(name)), *_parts(value)]
        elif name in _JOINED and isinstance(value, str):
            message[name] = (message.get(name) or "") + value
        elif name == "tool_calls" and isinstance(value, list):
            _add_calls(message.setdefault(name, []), value)
        elif value is not None and name not in _JOINED:
            message[name] = value


def _parts(content: JsonValue) -> list[JsonValue]:
    """Return content as a list of parts: Mistral's models send their thoughts so, and texts after them."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _add_calls(calls: list[JsonValue], parts: list[JsonValue]) -> None:
    """Calls of tools come by index: the name first, then the arguments in pieces of text."""
    for part in parts:
        index = part.get("index", 0)
        if index >= len(calls):  # they come one after the other
            calls.append({"type": "function", "function": {"name": "", "arguments": ""}})
        call = calls[min(index, len(calls) - 1)]
        call |= {name: value for name, value in part.items() if name in {"id", "type"} and value}
        for name, value in (part.get("function") or {}).items():
            call["function"][name] = call["function"].get(name, "") + (value or "")


def _stated(reason: JsonValue) -> bool:
    """Return whether a reason of ending is more than null or blank; SGLang's is an object with a type."""
    value = reason.get("type") if isinstance(reason, dict) else reason
    return value is not None and (not isinstance(value, str) or bool(value.strip()))


def _last(pieces: list[dict[str, JsonValue]]) -> dict[str, JsonValue]:
    """The last piece of another service's stream, which says how it ended; llama.cpp's with the texts before it."""
    last = pieces[-1]
    places = (last, last.get("meta_info"), last.get("details"))
    reasons = [
        place[name]
        for place in places
        if isinstance(place, dict)
        for name in ("finish_reason", "done_reason")
        if name in place
    ]
    if last.get("stop") is True:
        return {**last, "content": "".join(str(piece.get("content") or "") for piece in pieces)}
    ended = last.get("generated_text") is not None or last.get("done") is True
    if any(map(_stated, reasons)) or (ended and not reasons):
        return last
    raise Unfinished("the stream stops without saying how the answer ended")
