"""`python -m steelyard.steps.mock_inference_service`.

Answers like OpenAI's, vLLM's and a classifier's API, and misbehaves on demand.

Answers depend on the prompt alone, faults on `--seed` and the order of the calls. Runners of kind `mock`,
tests and benchmarks use it. It has the paths of the published mock too: OpenAI's below `/openai`, where one call in ten
fails below `…/transient-errors`, and `/errors/<status>`, which always fails.
"""

import argparse
import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import orjson
from aiohttp import web

from steelyard.steps.mock_answers import (
    MODEL,
    AnswerTo,
    BadCall,
    Call,
    chat,
    chunks,
    classify,
    complete,
    cut_short,
    embed,
    generate,
    wants_stream,
)
from steelyard.steps.service import add_address, log, serve
from steelyard_common.serving.openai import (
    EVENT_STREAM,
    PREFIXES,
    ErrorAnswer,
    check_content_type,
    openai_app,
)
from steelyard_common.types import Json

NAME = "mock_inference_service"
TRANSIENT_RATE = 0.1
"""Share of the calls of `…/transient-errors` that fail. Clients wait half a minute before they try again."""


@dataclass(frozen=True)
class Faults:
    """Faults to produce. Rates are shares of the calls; `die_after` counts calls answered."""

    latency_ms: float = 0
    latency_jitter_ms: float = 0
    error_rate: float = 0
    error_status: int = 503
    hang_rate: float = 0
    bad_index: frozenset[int] = frozenset()
    bad_text: str | None = None
    die_after: int | None = None
    ready_delay_ms: float = 0
    abort_rate: float = 0
    """Share of the answers that are cut short: status 200, reason of ending `abort`."""
    abort_at_end: bool = False
    """Cut the answers in flight short at SIGTERM, as vLLM does, and do not let them end."""
    seed: int = 0


@dataclass
class Mock:
    """The service: counts its calls, draws its faults, answers."""

    faults: Faults
    labels: tuple[str, ...] = ("0", "1")
    models: tuple[str, ...] = (MODEL,)
    answer_to: AnswerTo = lambda body, prompt: None
    die: Callable[[], None] = lambda: os._exit(1)
    answered: int = 0
    rng: random.Random = field(init=False)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at SIGTERM."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.faults.seed)

    async def answer(self, request: web.Request, call: Call, error_rate: float = 0) -> web.StreamResponse:
        """`error_rate` is the path's own, where it is above that of all calls."""
        check_content_type(request)
        try:
            body = self._check(await request.read())
        except BadCall as error:
            return ErrorAnswer(400, str(error)).response()
        # Drawn together before any await: a call's faults then depend on the seed and its number alone.
        hangs, fails, jitter = self.rng.random(), self.rng.random(), self.rng.uniform(-1, 1)
        aborts = self.faults.abort_rate > 0 and self.rng.random() < self.faults.abort_rate
        if hangs < self.faults.hang_rate:
            # For ever, as a server does that has lost a call: the client's time limit has to end it.
            await asyncio.Event().wait()
        aborts |= await self._work((self.faults.latency_ms + jitter * self.faults.latency_jitter_ms) / 1000)
        if fails < max(self.faults.error_rate, error_rate):
            return ErrorAnswer(self.faults.error_status, "this call was chosen to fail").response()
        try:
            answer = call(body)
            streams = "choices" in answer and wants_stream(body)
        except BadCall as error:
            return ErrorAnswer(400, str(error)).response()
        answer = cut_short(answer) if aborts else answer
        self.answered += 1
        if self.faults.die_after is not None and self.answered > self.faults.die_after:
            self.die()
        return (
            await _stream(request, chunks(answer, body.get("stream_options"))) if streams else _json(answer)
        )

    async def _work(self, seconds: float) -> bool:
        """Take the time that an answer takes; True where the end of the service cut it short."""
        if seconds <= 0:
            return False
        if not self.faults.abort_at_end:
            await asyncio.sleep(seconds)
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ending.wait()
        return self.ending.is_set()

    def _check(self, raw: bytes) -> Json:
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise BadCall(f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise BadCall("the body should be a JSON object")
        index = body.get("_index_", body.get("index"))
        if index in self.faults.bad_index:
            raise BadCall(f"row {index} is always refused")
        if self.faults.bad_text is not None and self.faults.bad_text in raw.decode():
            raise BadCall(f"calls that hold {self.faults.bad_text!r} are always refused")
        return body


async def fail(request: web.Request) -> web.Response:
    """Answer a call with the error status that its path names."""
    await request.read()
    return ErrorAnswer(int(request.match_info["status"]), f"calls of {request.path} always fail").response()


def make_app(mock: Mock) -> web.Application:
    loop_start: list[float] = []
    completions: Call = partial(complete, answer_to=mock.answer_to)
    chats: Call = partial(chat, answer_to=mock.answer_to)

    def route(call: Call, error_rate: float = 0) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await mock.answer(request, call, error_rate)

        return handle

    async def note_start(_: web.Application) -> None:
        loop_start.append(asyncio.get_running_loop().time())

    async def ready(_: web.Request) -> web.Response:
        waited = asyncio.get_running_loop().time() - loop_start[0]
        if waited * 1000 < mock.faults.ready_delay_ms:
            return ErrorAnswer(503, "still loading", kind="not_ready").response()
        return _json({"status": "ready"})

    app = openai_app(mock.models, "steelyard", 64 << 20)

    async def ends(_: web.Application) -> None:
        mock.ending.set()

    app.on_startup.append(note_start)
    app.on_shutdown.append(ends)
    app.add_routes(
        [
            *(
                route_of_openai
                for prefix in PREFIXES
                for route_of_openai in (
                    web.post(f"{prefix}/completions", route(completions)),
                    web.post(f"{prefix}/completions/transient-errors", route(completions, TRANSIENT_RATE)),
                    web.post(f"{prefix}/chat/completions", route(chats)),
                    web.post(f"{prefix}/chat/completions/transient-errors", route(chats, TRANSIENT_RATE)),
                    web.post(f"{prefix}/embeddings", route(embed)),
                )
            ),
            web.post("/generate", route(generate)),
            web.post("/classify", route(lambda body: classify(body, mock.labels))),
            web.post(r"/errors/{status:[45]\d\d}", fail),
            web.get("/ready", ready),
            web.get("/health", ready),
        ]
    )
    return app


def _json(content: Json, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


async def _stream(request: web.Request, parts: Iterator[Json]) -> web.StreamResponse:
    """Send an answer in parts, as server-sent events; a client that leaves needs no more of them."""
    response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
    with suppress(ConnectionError):
        await response.prepare(request)
        for part in parts:
            await response.write(b"data: %s\n\n" % orjson.dumps(part))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
    return response


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m steelyard.steps.{NAME}")
    add_address(parser, 8000)
    add = parser.add_argument
    add("--latency-ms", type=float, default=0, help="time to answer")
    add("--latency-jitter-ms", type=float, default=0, help="up to so much more or less")
    add("--error-rate", type=float, default=0, help="share of calls that fail")
    add("--error-status", type=int, default=503, help="with this status")
    add("--hang-rate", type=float, default=0, help="share of calls that are never answered")
    add(
        "--bad-index",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="_index_ that always gets a 400; repeatable",
    )
    add("--bad-text", metavar="TEXT", help="calls that hold it always get a 400")
    add("--die-after", type=int, metavar="N", help="exit with status 1 at the call after N answered ones")
    add("--ready-delay-ms", type=float, default=0, help="not ready for so long")
    add("--abort-rate", type=float, default=0, help="share of answers cut short: 200, finish_reason abort")
    add("--abort-at-end", action="store_true", help="cut answers in flight short at SIGTERM, as vLLM does")
    add("--bind-all", action="store_true", help="listen on all addresses, which is forbidden")
    add("--labels", default="0,1", help="of /classify, separated by commas")
    add("--seed", type=int, default=0, help="of the faults")
    return parser


def main() -> None:
    arguments = _parser().parse_args()
    faults = Faults(
        latency_ms=arguments.latency_ms,
        latency_jitter_ms=arguments.latency_jitter_ms,
        error_rate=arguments.error_rate,
        error_status=arguments.error_status,
        hang_rate=arguments.hang_rate,
        bad_index=frozenset(arguments.bad_index),
        bad_text=arguments.bad_text,
        die_after=arguments.die_after,
        ready_delay_ms=arguments.ready_delay_ms,
        abort_rate=arguments.abort_rate,
        abort_at_end=arguments.abort_at_end,
        seed=arguments.seed,
    )
    # For the test that the embedded kubelet ends such a program.
    host = "0.0.0.0" if arguments.bind_all else arguments.host
    if arguments.bind_all:
        log("warning", NAME, "listening on all addresses, as asked")
    mock = Mock(faults, tuple(arguments.labels.split(",")))
    serve(NAME, make_app(mock), host, arguments.port)


if __name__ == "__main__":
    main()
