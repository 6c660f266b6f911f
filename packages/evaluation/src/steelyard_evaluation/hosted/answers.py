"""Answers of a provider: the tokens that they say they have used, whole or at the end of a stream."""

from collections.abc import Iterator

import orjson

from steelyard_common.types import JsonValue
from steelyard_evaluation.hosted.ledger import Tokens

MAX_EVENT_BYTES = 4 << 20
_MOST = 10**12


class EndlessEvent(ValueError):
    """A part of a stream that has no end."""


def usage_in(body: bytes) -> Tokens | None:
    """Return the tokens that an answer reports; None where it reports none that can be true."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return _usage(answer)


def _usage(answer: JsonValue) -> Tokens | None:
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if not isinstance(usage, dict):
        return None
    read = _count(usage.get("prompt_tokens"))
    if read is None:
        return None
    # Some providers leave the tokens of reasoning out of those written, and count them in the total.
    beyond = (_count(usage.get("total_tokens")) or 0) - read
    tokens = Tokens(read, max(_count(usage.get("completion_tokens")) or 0, beyond))
    return tokens if tokens else None


def _count(value: JsonValue) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None


class EventStream:
    """Passes a stream of server-sent events on, whole event by whole event, and notes the tokens that it reports."""

    def __init__(self, *, shows_usage: bool) -> None:
        self.usage: Tokens | None = None
        self.done = False
        """True once the stream has said that it is whole."""
        self._shows_usage = shows_usage
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the events that are complete. Raises EndlessEvent."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        event: list[bytes] = []
        for line in lines:
            event.append(line)
            if not line.rstrip(b"\r"):
                yield from self._pass_on(b"\n".join(event) + b"\n")
                event = []
        if event:
            self._rest = b"\n".join([*event, self._rest])
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EndlessEvent(f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes")

    def end(self) -> Iterator[bytes]:
        """Yield the bytes after the last complete event."""
        if self._rest:
            yield from self._pass_on(self._rest)

    def _pass_on(self, event: bytes) -> Iterator[bytes]:
        values = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
        # Nothing but this value: a model may write the word itself, and the stream break off after it.
        self.done = self.done or b"[DONE]" in values
        if b'"usage"' not in event or all(map(self._note, values)):
            yield event

    def _note(self, data: bytes) -> bool:
        """Note the tokens of one event; return whether the client is to see it."""
        try:
            content = orjson.loads(data)
        except orjson.JSONDecodeError:
            return True
        tokens = _usage(content)
        self.usage = tokens or self.usage
        # A client that has not asked for it may not expect a part without choices.
        return self._shows_usage or tokens is None or bool(content.get("choices"))
