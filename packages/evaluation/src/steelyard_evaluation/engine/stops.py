"""Stop strings: an endpoint gets as many as it takes, and its answer is cut at the first of all.

Endpoints take four at most by custom. Every stop beyond those would be dropped without a word, and the answer would run
on. So a request with more is put into an envelope that keeps the whole list; `completions.CompletionsClient` opens it,
and the reader cuts what comes back. The text as it came is kept along with the one that is scored.
"""

from collections.abc import Mapping, Sequence

import orjson

from steelyard_common.types import JsonValue

MOST_STOPS = 4
"""Number of stop strings that an endpoint is sent, unless a setting says otherwise."""
ENVELOPE = b'{"stops":'


def list_stops(sampling: Mapping[str, JsonValue]) -> list[str]:
    """The stop strings of a request's parameters; one may stand as text."""
    stop = sampling.get("stop")
    return [stop] if isinstance(stop, str) else list(stop or ())


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first of the stops."""
    # An empty stop is found at the beginning of every text.
    ends = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text


def envelope(body: bytes, stops: Sequence[str]) -> bytes:
    """A request, or an answer, with all stops at which it should end."""
    return ENVELOPE + orjson.dumps(list(stops)) + b',"body":' + body + b"}"


def open_envelope(data: bytes) -> tuple[list[str], dict[str, JsonValue]]:
    """All stops and the body of an envelope."""
    content = orjson.loads(data)
    return content["stops"], content["body"]


def limit_stops(body: Mapping[str, JsonValue], most: int) -> bytes:
    """The request with no more than `most` stops."""
    stops = list_stops(body)[:most]
    rest = {name: value for name, value in body.items() if name != "stop"}
    return orjson.dumps({**rest, "stop": stops} if stops else rest)


def refuses_stops(body: bytes) -> bool:
    """Return whether an error answer is about the stop strings: `error.param` is `stop` or `body.stop`."""
    try:
        error = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    error = error.get("error", error) if isinstance(error, dict) else {}
    param = error.get("param") if isinstance(error, dict) else None
    # vLLM says `body.stop`, OpenAI `stop`; messages differ between versions and are not looked at.
    return isinstance(param, str) and param.rpartition(".")[2] == "stop"
