"""`python -m steelyard.steps.mock_inference_service`.

Answers like OpenAI's, vLLM's and a classifier's API, and misbehaves on demand.

Answers depend on the prompt alone, faults on `--seed` and the order of the calls. Runners of kind `mock`,
tests and benchmarks use it. It has the paths of the published mock too: OpenAI's below `/openai`, where one call in ten
fails below `…/transient-errors`, and `/errors/<status>`, which always fails.
"""

import argparse
import asyncio
import hashlib
import os
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import orjson
from aiohttp import web

from steelyard.steps.service import add_address, log, serve
from steelyard.types import Json

NAME = "mock_inference_service"
MODEL = "mock"
TRANSIENT_RATE = 0.1
"""Share of the calls of `…/transient-errors` that fail. Clients wait half a minute before they try again."""
WORDS = (
    *("balance", "beam", "counterweight", "fulcrum", "gauge", "lever", "mass", "measure", "notch", "pan"),
    *("pivot", "poise", "scale", "steel", "weigh", "yard"),
)
_WORD = re.compile(r"\S+")
Call: TypeAlias = Callable[[Json], Json]
AnswerTo: TypeAlias = Callable[[Json, str], str | None]
"""Function from the body of a call and its prompt to the text of an answer; None for the words that any
prompt gets.
"""


class BadCall(ValueError):
    """A call that no such service would accept; the message says why."""


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

    async def answer(self, request: web.Request, call: Call, error_rate: float = 0) -> web.Response:
        """`error_rate` is the path's own, where it is above that of all calls."""
        try:
            body = self._checked(await request.read())
        except BadCall as error:
            return _error(400, "invalid_request_error", str(error))
        # Drawn together before any await: a call's faults then depend on the seed and its number alone.
        hangs, fails, jitter = self.rng.random(), self.rng.random(), self.rng.uniform(-1, 1)
        aborts = self.faults.abort_rate > 0 and self.rng.random() < self.faults.abort_rate
        if hangs < self.faults.hang_rate:
            # For ever, as a server does that has lost a call: the client's time limit has to end it.
            await asyncio.Event().wait()
        aborts |= await self._work((self.faults.latency_ms + jitter * self.faults.latency_jitter_ms) / 1000)
        if fails < max(self.faults.error_rate, error_rate):
            return _error(self.faults.error_status, "server_error", "this call was chosen to fail")
        try:
            answer = call(body)
            response = _json(cut_short(answer) if aborts else answer)
        except BadCall as error:
            return _error(400, "invalid_request_error", str(error))
        self.answered += 1
        if self.faults.die_after is not None and self.answered > self.faults.die_after:
            self.die()
        return response

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

    def _checked(self, raw: bytes) -> Json:
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


def completion(prompt: str, max_tokens: int) -> str:
    """Words drawn by the digest of the prompt: the same prompt, the same answer."""
    digest = hashlib.sha256(prompt.encode()).digest()
    count = min(max_tokens, 4 + digest[0] % 12)
    return " ".join(WORDS[digest[k % 32] % len(WORDS)] for k in range(1, count + 1))


def complete(body: Json, answer_to: AnswerTo) -> Json:
    """OpenAI's `/v1/completions`."""
    prompts = body.get("prompt")
    if isinstance(prompts, str):
        prompts = [prompts]
    if not isinstance(prompts, list) or not prompts or not all(isinstance(p, str) for p in prompts):
        raise BadCall("prompt: should be a text or a list of texts")
    _no_stream(body)
    answers = [_answer(body, prompt, answer_to) for prompt in prompts for _ in range(_choices(body))]
    choices = [
        {"index": k, "text": text, "logprobs": None, "finish_reason": reason}
        for k, (text, reason) in enumerate(answers)
    ]
    usage = _usage(prompts, [text for text, _ in answers])
    return {**_envelope("cmpl", "text_completion", body), "choices": choices, "usage": usage}


def chat(body: Json, answer_to: AnswerTo) -> Json:
    """OpenAI's `/v1/chat/completions`."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise BadCall("messages: should be a list of {role, content}")
    _no_stream(body)
    prompt = "\n".join(f"{m.get('role')}: {_content(m.get('content'))}" for m in messages)
    answers = [_answer(body, prompt, answer_to) for _ in range(_choices(body))]
    choices = [
        {"index": k, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        for k, (text, reason) in enumerate(answers)
    ]
    usage = _usage([prompt], [text for text, _ in answers])
    return {**_envelope("chatcmpl", "chat.completion", body), "choices": choices, "usage": usage}


def _answer(body: Json, prompt: str, answer_to: AnswerTo) -> tuple[str, str]:
    """The text, and the reason why it ends."""
    text = answer_to(body, prompt)
    if text is None:
        return completion(prompt, _tokens(body)), "stop"
    words = list(_WORD.finditer(text))
    limited = "max_tokens" in body or "max_completion_tokens" in body
    if limited and len(words) > (most := _tokens(body)):
        return text[: words[most - 1].end()], "length"
    return text, "stop"


def generate(body: Json) -> Json:
    """vLLM's `/generate`: the prompt comes back before its continuation."""
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise BadCall("prompt: should be a text")
    _no_stream(body)
    return {"text": [f"{prompt} {completion(prompt, _tokens(body))}" for _ in range(_choices(body))]}


def cut_short(answer: Json) -> Json:
    """Cuts an answer to half its words, with the reason `abort`, as a server does that is being ended."""
    choices = answer.get("choices")
    if choices is None:
        return {**answer, "finish_reason": "abort"}
    return {**answer, "choices": [_half(choice) for choice in choices]}


def _half(choice: Json) -> Json:
    def half(text: str) -> str:
        words = text.split()
        return " ".join(words[: len(words) // 2])

    if "message" in choice:
        message = {**choice["message"], "content": half(choice["message"]["content"])}
        return {**choice, "message": message, "finish_reason": "abort"}
    return {**choice, "text": half(choice["text"]), "finish_reason": "abort"}


def classify(body: Json, labels: tuple[str, ...]) -> Json:
    """The label that the call holds, else one drawn by its digest."""
    if "label" in body:
        return {"label": body["label"]}
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()
    return {"label": labels[digest[0] % len(labels)]}


async def fail(request: web.Request) -> web.Response:
    """Answer a call with the error status that its path names."""
    await request.read()
    status = int(request.match_info["status"])
    kind = "invalid_request_error" if status < 500 else "server_error"
    return _error(status, kind, f"calls of {request.path} always fail")


def make_app(mock: Mock) -> web.Application:
    loop_start: list[float] = []
    completions: Call = partial(complete, answer_to=mock.answer_to)
    chats: Call = partial(chat, answer_to=mock.answer_to)

    def route(call: Call, error_rate: float = 0) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            return await mock.answer(request, call, error_rate)

        return handle

    async def started(_: web.Application) -> None:
        loop_start.append(asyncio.get_running_loop().time())

    async def ready(_: web.Request) -> web.Response:
        waited = asyncio.get_running_loop().time() - loop_start[0]
        if waited * 1000 < mock.faults.ready_delay_ms:
            return _error(503, "not_ready", "still loading")
        return _json({"status": "ready"})

    async def models(_: web.Request) -> web.Response:
        return _json(
            {
                "object": "list",
                "data": [
                    {"id": model, "object": "model", "created": 0, "owned_by": "steelyard"}
                    for model in mock.models
                ],
            }
        )

    app = web.Application(client_max_size=64 << 20)

    async def ends(_: web.Application) -> None:
        mock.ending.set()

    app.on_startup.append(started)
    app.on_shutdown.append(ends)
    app.add_routes(
        [
            *(
                route_of_openai
                for prefix in ("/v1", "/openai/v1")
                for route_of_openai in (
                    web.post(f"{prefix}/completions", route(completions)),
                    web.post(f"{prefix}/completions/transient-errors", route(completions, TRANSIENT_RATE)),
                    web.post(f"{prefix}/chat/completions", route(chats)),
                    web.post(f"{prefix}/chat/completions/transient-errors", route(chats, TRANSIENT_RATE)),
                    web.get(f"{prefix}/models", models),
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


def _envelope(prefix: str, kind: str, body: Json) -> Json:
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return {"id": f"{prefix}-{digest[:24]}", "object": kind, "created": 0, "model": body.get("model", MODEL)}


def _usage(prompts: list[str], texts: list[str]) -> Json:
    prompt_words, said = (sum(len(text.split()) for text in group) for group in (prompts, texts))
    return {"prompt_tokens": prompt_words, "completion_tokens": said, "total_tokens": prompt_words + said}


def _tokens(body: Json) -> int:
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if limit is None:
        return 16
    if not isinstance(limit, int) or limit < 1:
        raise BadCall("max_tokens: should be a positive integer")
    return limit


def _choices(body: Json) -> int:
    number = body.get("n", 1)
    if not isinstance(number, int) or not 1 <= number <= 128:
        raise BadCall("n: should be an integer from 1 to 128")
    return number


def _content(content: object) -> str:
    """The text of a message: given whole, or in parts."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _no_stream(body: Json) -> None:
    if body.get("stream"):
        raise BadCall("stream: not implemented; ask without it")


def _json(content: Json, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


def _error(status: int, kind: str, message: str) -> web.Response:
    return _json({"error": {"message": message, "type": kind, "param": None, "code": None}}, status)


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
