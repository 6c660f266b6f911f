"""Doubles for tests of runs: an OpenAI-compatible endpoint on loopback, and small prompt files."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.request import Limits, RunRequest, SourceSpec

Answer = Callable[[str], JsonValue]
"""A function from a prompt to the text of its answer or to a whole response; it may be a coroutine function."""


@dataclass
class Endpoint:
    """An endpoint on loopback with a record of its requests."""

    url: str
    bodies: list[dict[str, JsonValue]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        return [read_prompt(body) for body in self.bodies]


def read_prompt(body: Mapping[str, JsonValue]) -> str:
    return str(body["messages"][-1]["content"] if "messages" in body else body["prompt"])


def echo(prompt: str) -> str:
    """The answer of a model that repeats the last word."""
    return prompt.rsplit(maxsplit=1)[-1]


def stopping(context: RunContext, after: int) -> Callable[[str], str]:
    """Answers; the last one before the end of patience says stop."""
    left = iter(range(after, -1, -1))

    def answer(prompt: str) -> str:
        if next(left, 0) == 0:
            context.stop.set()
        return echo(prompt)

    return answer


def make_ended_answer(reason: str, text: str) -> web.Response:
    """A response whose answer ended for `reason`: 12 tokens in all."""
    choice = {"message": {"role": "assistant", "content": text}, "text": text, "finish_reason": reason}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    return web.json_response({"choices": [choice], "usage": usage})


@asynccontextmanager
async def endpoint(answer: Answer = echo, seconds: float = 0.0) -> AsyncIterator[Endpoint]:
    """An endpoint at `/v1` that answers every prompt by `answer`, which may also give a whole response."""

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        server.bodies.append(body)
        server.headers.append(request.headers)
        if seconds:
            await asyncio.sleep(seconds)
        said = answer(read_prompt(body))
        if isawaitable(said):
            said = await said
        if isinstance(said, web.StreamResponse):
            return said
        return make_ended_answer("stop", said)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", handle)
    app.router.add_post("/v1/completions", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = Endpoint(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
    try:
        yield server
    finally:
        await runner.cleanup()


def write_prompts(path: Path, rows: Sequence[Mapping[str, JsonValue]] | int = 20) -> Path:
    """A prompt file with these rows, or with so many that ask for a number."""
    if isinstance(rows, int):
        rows = [{"prompt": f"say {number}", "target": str(number)} for number in range(rows)]
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def make_request(prompts: Path, url: str, **changes: JsonValue) -> RunRequest:
    """A request with defaults, so that a test shows only what matters."""
    limits = Limits(concurrency=4, retries=2)
    return RunRequest(
        **{"source": SourceSpec(str(prompts)), "model": "m", "urls": (url,), "limits": limits, **changes}
    )
