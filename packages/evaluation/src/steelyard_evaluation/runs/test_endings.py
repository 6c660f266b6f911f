"""Runs whose endpoint cuts answers short, or ends them for an unknown reason."""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.doubles import free_port
from steelyard_evaluation.runs.context import RunContext, RunFailed, Silence
from steelyard_evaluation.runs.doubles import echo, endpoint, make_ended_answer, make_request, write_prompts
from steelyard_evaluation.runs.folder import open_run
from steelyard_evaluation.runs.request import Api, Limits, PromptSpec, RubricSpec
from steelyard_evaluation.runs.run import run


@pytest.mark.parametrize("api", ["chat", "completions"])
async def test_answers_that_the_servers_end_cut_short_are_asked_again(tmp_path: Path, api: Api) -> None:
    prompts, tries = write_prompts(tmp_path / "p.parquet"), Counter[str]()

    def answer(prompt: str) -> JsonValue:
        tries[prompt] += 1
        cut = tries[prompt] == 1 and int(echo(prompt)) % 4 == 0
        return make_ended_answer("abort", echo(prompt)[:-1]) if cut else echo(prompt)

    async with endpoint(answer) as server:
        request = make_request(prompts, server.url, prompt=PromptSpec(api))
        result = await run(request, tmp_path / "run")
    assert result.exit_code == 0
    rows = list(open_run(tmp_path / "run").rows())
    assert all(row.responses and row.responses[0]["text"] == str(row.index) for row in rows)
    assert {row.responses[0]["finish_reason"] for row in rows if row.responses} == {"stop"}
    assert sorted(tries.values()) == 15 * [1] + 5 * [2]


async def test_an_answer_in_pieces_is_read_as_one(tmp_path: Path) -> None:
    """A gateway that always streams answers as it likes; a stream without its end is asked again."""
    prompts, tries = write_prompts(tmp_path / "p.parquet", 6), Counter[str]()

    def answer(prompt: str) -> web.Response:
        tries[prompt] += 1
        pieces = [{"choices": [{"index": 0, "delta": {"content": letter}}]} for letter in echo(prompt)]
        if tries[prompt] > 1:
            pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        body = b"".join(b"data: " + orjson.dumps(piece) + b"\n\n" for piece in pieces)
        return web.Response(body=body, content_type="text/event-stream")

    async with endpoint(answer) as server:
        assert (await run(make_request(prompts, server.url), tmp_path / "run")).exit_code == 0
    texts = {row.index: (row.responses or [{}])[0].get("text") for row in open_run(tmp_path / "run").rows()}
    assert texts == {number: str(number) for number in range(6)}


async def test_an_unknown_reason_is_counted_on_the_page(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 6)

    def answer(prompt: str) -> JsonValue:
        return make_ended_answer("budget", echo(prompt)) if echo(prompt) in "012" else echo(prompt)

    async with endpoint(answer) as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("exact-match"),))
        assert (await run(request, tmp_path / "run")).exit_code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Ended by budget" in page
    assert "3 answers (an unknown reason" in page
    numbers = orjson.loads((tmp_path / "run" / "report.json").read_bytes())
    assert numbers["calls"] == {"asked": {server.url: 6}, "unknownEndings": {"budget": 3}}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (make_ended_answer("stop", ""), "Every answer is empty (20 of 20)."),
        (
            make_ended_answer("length", "It"),
            "Every answer is cut off at its token limit (20 of 20): raise max_tokens.",
        ),
    ],
)
async def test_a_run_without_a_whole_answer_says_so_on_the_screen_and_on_the_page(
    tmp_path: Path, answer: web.Response, sentence: str
) -> None:
    prompts, listener = write_prompts(tmp_path / "p.parquet"), Warnings()
    body, kind = answer.body, answer.content_type
    async with endpoint(lambda _: web.Response(body=body, content_type=kind)) as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("exact-match"),))
        await run(request, tmp_path / "run", RunContext(listener=listener))
    assert sentence in listener.texts
    assert sentence in (tmp_path / "run" / "report.html").read_text()
    assert orjson.loads((tmp_path / "run" / "report.json").read_bytes())["limits"][0] == sentence


async def test_the_warning_about_an_absent_server_is_one_sentence(tmp_path: Path) -> None:
    prompts, listener = write_prompts(tmp_path / "p.parquet"), Warnings()
    limits = Limits(concurrency=1, wait_for_server=0.1)
    request = make_request(prompts, f"http://127.0.0.1:{free_port('127.0.0.1')}/v1", limits=limits)
    with pytest.raises(RunFailed, match="no connection for"):
        await run(request, tmp_path / "run", RunContext(listener=listener))
    assert re.match(r"no server listens at .*; waiting for it up to 0.1 s: cannot connect", listener.texts[0])


@dataclass
class Warnings(Silence):
    """A listener that keeps the warnings."""

    texts: list[str] = field(default_factory=list)

    def warning(self, text: str) -> None:
        self.texts.append(text)
