"""A provider on loopback: counts what it would charge, and misbehaves on demand.

`python -m steelyard_evaluation.hosted.doubles --port 9000 --key sk-local` is one to try hosted models with.
"""

import argparse
import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from steelyard_common.types import Json

KEY = "sk-0123456789abcdef0123456789"


@dataclass
class FakeProvider:
    """An OpenAI-compatible endpoint. `charged` is what its bill would say."""

    key: str | None = KEY
    seconds: float = 0.0
    """Time that an answer takes; it is charged when it begins."""
    tells_usage: bool = True
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """Answers wait while it is not set; set at the start."""
    breaks_off: bool = False
    """Break the connection in the middle of every answer."""
    refusal: Callable[[Json], web.Response | None] = lambda body: None
    """Returns an error in place of an answer."""
    snapshots: Sequence[Json] = ()
    """Fields of answers that say which model gave them, in turn; by default the model is the one that was asked."""
    bodies: list[Json] = field(default_factory=list)
    read: int = 0
    written: int = 0
    at_once: int = 0
    most_at_once: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self.open.set()

    @property
    def total_tokens(self) -> int:
        """Tokens that have been charged."""
        return self.read + self.written

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embed)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answer(request)
        finally:
            self.at_once -= 1

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        authorization = request.headers.get("Authorization", "")
        if self.key is not None and authorization != f"Bearer {self.key}":
            return _error(401, f"Incorrect API key provided: {authorization}")
        if (refused := self.refusal(body)) is not None:
            return refused
        # As with real ones, an answer may be shorter than it may be, and is charged though no client waits for it.
        words = self._chance.randint(1, body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        text = orjson.dumps(body["messages"]).decode()
        usage = {"prompt_tokens": len(text.split()), "completion_tokens": words}
        self.read += usage["prompt_tokens"]
        self.written += words
        await self.open.wait()
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if body.get("stream"):
            return await self._stream(request, body, words, usage)
        message = {"role": "assistant", "content": " ".join(["word"] * words)}
        answer: Json = {
            "object": "chat.completion",
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            **self._snapshot(),
        }
        if self.tells_usage:
            answer["usage"] = {**usage, "total_tokens": sum(usage.values())}
        if self.breaks_off and request.transport is not None:
            request.transport.abort()
        return web.json_response(answer)

    async def _embed(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        read = sum(len(text.split()) for text in body["input"])
        self.read += read
        data = [
            {"object": "embedding", "index": number, "embedding": [0.5]}
            for number in range(len(body["input"]))
        ]
        usage = {"prompt_tokens": read, "total_tokens": read}
        return web.json_response({"object": "list", "model": body["model"], "data": data, "usage": usage})

    def _snapshot(self) -> Json:
        return self.snapshots[len(self.bodies) % len(self.snapshots)] if self.snapshots else {}

    async def _stream(self, request: web.Request, body: Json, words: int, usage: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        part: Json = {"choices": [{"index": 0, "delta": {"content": "word "}}], **self._snapshot()}
        last: Json = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **self._snapshot()}
        parts: list[Json] = [part] * words + [last]
        if self.tells_usage and (body.get("stream_options") or {}).get("include_usage"):
            parts.append({"choices": [], "usage": usage})
        for number, part in enumerate(parts):
            await response.write(b"data: " + orjson.dumps(part) + b"\n\n")
            if self.breaks_off and number >= words // 2 and request.transport is not None:
                request.transport.abort()
                return response
        await response.write(b"data: [DONE]\n\n")
        return response


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "error"}}, status=status)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m steelyard_evaluation.hosted.doubles")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--key", default=KEY)
    parser.add_argument("--seconds", type=float, default=0.0, help="time that an answer takes")
    arguments = parser.parse_args()
    provider = FakeProvider(arguments.key, arguments.seconds)
    web.run_app(provider.app(), host="127.0.0.1", port=arguments.port)
    print(f"charged: {provider.read} tokens read, {provider.written} written")


if __name__ == "__main__":
    main()
