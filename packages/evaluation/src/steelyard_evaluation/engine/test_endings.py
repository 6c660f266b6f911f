"""Answers that their server's end cut short: found wherever a service says so, asked again, never kept."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import orjson
import pytest
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.call import Failure, Fault
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    cut_short,
    epoch,
    error_rows,
    good_answer,
    json_answer,
    make_environment,
    make_expected_rows,
    make_spec,
    make_stores,
    read_error_rows,
    read_rows,
    replica,
    write_dataset,
)
from steelyard_evaluation.engine.endings import answer_or_failure, unknown_reasons
from steelyard_evaluation.engine.engine import evaluate
from steelyard_evaluation.engine.openai import reader
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.verify import verify


def chat(reason: JsonValue, text: str = "4") -> JsonValue:
    return {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": reason}]}


def events(*pieces: JsonValue, done: bool = True) -> bytes:
    body = b"".join(b"data: " + orjson.dumps(piece) + b"\n\n" for piece in pieces)
    return body + b"data: [DONE]\n\n" if done else body


def delta(text: str | None = None, reason: str | None = None) -> JsonValue:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def piece(text: str, reason: str | None = None) -> JsonValue:
    return {"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": reason}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}

CUT = {
    "vLLM, SGLang: chat": chat("abort"),
    "completions": {
        "choices": [{"text": "4", "finish_reason": "stop"}, {"text": "", "finish_reason": "abort"}]
    },
    "OpenRouter": chat("error"),
    "in capitals": chat("CANCELLED"),
    "SGLang's own": {"text": "4", "meta_info": {"finish_reason": {"type": "abort", "message": "shutdown"}}},
    "TGI's own, in a list": [{"generated_text": "4", "details": {"finish_reason": "error"}}],
    "llama.cpp's own": {"content": "4", "stop": False, "stop_type": "none"},
    "Responses": {"object": "response", "status": "cancelled", "output": []},
}
WHOLE = {
    "stopped": chat("stop"),
    "at the limit": chat("length"),
    "a call of a tool": chat("tool_calls"),
    "no reason": {"text": "answer", "score": 1.0},
    "a text that speaks of it": chat("stop", '"finish_reason": "abort"'),
    "a text in an object": {"text": {"finish_reason": "abort"}},
    "Anthropic's": {"type": "message", "stop_reason": "end_turn"},
    "vLLM's stop_reason": {"choices": [{"text": "4", "finish_reason": "stop", "stop_reason": "abort"}]},
    "Responses at the limit": {"object": "response", "status": "incomplete"},
}
STREAMS = {
    "without its end": events(delta("4"), done=False),
    "done, without a reason": events(delta("4")),
    "aborted": events(delta("4"), delta(reason="abort")),
    "an error in it": events(delta("4"), {"error": {"message": "EngineDeadError"}}),
    "half an event": events(delta("4"), delta(reason="stop"), done=False)[:-20],
    "completions": events(piece("4"), done=False),
    "no event": b": ping\n\n",
    "another shape": events({"choices": [3]}),
    "llama.cpp's own": events({"content": "4", "stop": False}, done=False),
    "TGI's own": events({"token": {"text": "4"}, "generated_text": None}, done=False),
    **{
        f"{name}, {reason!r} at its end": stream
        for reason in ("", " ")
        for name, stream in {
            "chat": events(delta("4", reason), delta(reason=reason)),
            "completions": events(piece("4", reason), done=False),
            "SGLang's": events({"text": "4", "meta_info": {"finish_reason": {"type": reason}}}),
            "vLLM's generate": events({"text": "4", "finish_reason": reason}),
            "TGI's": events({"generated_text": "4", "details": {"finish_reason": reason}}),
            "Ollama's": events({"response": "4", "done": True, "done_reason": reason}),
        }.items()
    },
}
WHOLE_STREAMS = {
    "an empty reason in each piece but the last": events(delta("4", ""), delta(reason="stop")),
    "an empty reason behind the last": events(delta("4", "stop"), delta(reason="")),
    "TGI's, without details": events({"generated_text": "4", "details": None}),
    "SGLang's": events({"text": "4", "meta_info": {"finish_reason": {"type": "stop"}}}),
    "Ollama's of an old version": events({"response": "4", "done": True}),
}


@pytest.mark.parametrize("name", CUT)
def test_an_answer_that_its_server_ended_is_a_transient_failure(name: str) -> None:
    body = orjson.dumps(CUT[name])
    outcome = answer_or_failure(body)
    assert isinstance(outcome, Failure)
    assert outcome.fault is Fault.TRANSIENT
    assert "cut short" in outcome.message
    assert outcome.answer == body  # it is paid for


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_that_ended_by_itself_stays_as_it_is(name: str) -> None:
    body = orjson.dumps(WHOLE[name])
    assert answer_or_failure(body) is body
    assert unknown_reasons(body) == []


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_without_its_end_is_a_transient_failure(name: str) -> None:
    outcome = answer_or_failure(STREAMS[name])
    assert isinstance(outcome, Failure)
    assert outcome.fault is Fault.TRANSIENT


@pytest.mark.parametrize("name", WHOLE_STREAMS)
def test_a_stream_with_its_end_is_an_answer(name: str) -> None:
    whole = answer_or_failure(WHOLE_STREAMS[name])
    assert isinstance(whole, bytes)
    assert unknown_reasons(whole) == []


def test_a_whole_stream_is_put_together() -> None:
    body = events(delta("4"), delta("2"), delta(reason="stop"), USAGE)
    whole = answer_or_failure(body.replace(b"\n", b"\r\n"))
    assert isinstance(whole, bytes)
    answer = orjson.loads(whole)
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "42"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == USAGE["usage"]
    texts = answer_or_failure(events(piece("4"), piece("2", "length")))
    assert isinstance(texts, bytes)
    assert orjson.loads(texts)["choices"] == [{"index": 0, "finish_reason": "length", "text": "42"}]


def test_parts_of_content_are_put_together() -> None:
    """Mistral's models that think stream lists of parts, and then texts."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "2 and 2"}]}
    deltas = ([thought], [{"type": "text", "text": "fo"}], "ur")
    pieces = [{"choices": [{"index": 0, "delta": {"content": content}}]} for content in deltas]
    whole = answer_or_failure(events(*pieces, delta(reason="stop")))
    assert isinstance(whole, bytes)
    (response,) = reader("chat")(whole)
    assert (response["text"], response["reasoning"]) == ("four", "2 and 2")


def test_calls_of_tools_are_put_together() -> None:
    parts = [{"index": 0, "id": "c", "function": {"name": "add", "arguments": ""}}]
    more = [{"index": 0, "function": {"arguments": '{"a": 1}'}}]
    pieces = [
        {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": reason}]}
        for calls, reason in [(parts, None), (more, "tool_calls")]
    ]
    whole = answer_or_failure(events(*pieces))
    assert isinstance(whole, bytes)
    (call,) = orjson.loads(whole)["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize(
    ("reason", "unknown"), [("budget", ["budget"]), (None, ["null"]), ("", ["null"]), ("stop", [])]
)
def test_an_unknown_reason_counts_and_is_named(reason: str | None, unknown: list[str]) -> None:
    body = orjson.dumps(chat(reason))
    assert answer_or_failure(body) is body
    assert unknown_reasons(body) == unknown


async def test_rows_that_were_cut_short_are_asked_again() -> None:
    """Half the rows are cut short at their first try, as by a replica that is being ended."""
    stores, tries = make_stores(), Counter[int]()
    await write_dataset(stores.dataset, 40)
    spec = make_spec(workersPerReplica=4)

    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        tries[row["number"]] += 1
        if row["number"] % 2 and tries[row["number"]] == 1:
            return cut_short(row)
        return await good_answer(row)

    async with replica(answer) as server, asyncio.timeout(60):
        plan = compile_plan(spec)
        summary = await evaluate(plan, stores, FixedDiscovery({server.address}), epoch(1), make_environment())
        manifest = await verify(plan, stores.dataset, stores.output, epoch(2))
    assert read_rows(stores.output, manifest) == make_expected_rows(spec, 40)
    assert summary.row_errors == 0
    assert {row["_index_"] for row in await read_error_rows(stores.output)} == set(range(1, 40, 2))
    assert manifest.asked == {server.address: 40}


async def test_a_row_that_is_always_cut_short_has_no_answer() -> None:
    stores = make_stores()
    await write_dataset(stores.dataset, 3)
    spec = make_spec(client={"badRequestPolicy": "Skip", "transientErrorRetryLimit": 4})

    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        return cut_short(row) if row["number"] == 1 else await good_answer(row)

    async with replica(answer) as server, asyncio.timeout(60):
        await evaluate(
            compile_plan(spec), stores, FixedDiscovery({server.address}), epoch(1), make_environment()
        )
    (error,) = await error_rows(stores.output)
    assert (error["_index_"], error["reason"]) == (1, "RetriesExhausted")
    assert "reason 'abort'" in error["message"]


async def test_the_manifest_counts_unknown_reasons() -> None:
    stores = make_stores()
    await write_dataset(stores.dataset, 5)

    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        odd = {"finish_reason": "budget"} if row["number"] < 2 else {}
        return json_answer({"text": f"answer {row['number']}", "score": row["number"] / 2, **odd})

    async with replica(answer) as server, asyncio.timeout(60):
        plan = compile_plan(make_spec())
        await evaluate(plan, stores, FixedDiscovery({server.address}), epoch(1), make_environment())
        manifest = await verify(plan, stores.dataset, stores.output, epoch(2))
    assert manifest.unknownEndings == {"budget": 2}
