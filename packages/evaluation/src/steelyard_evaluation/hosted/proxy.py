"""The server of a hosted model: takes OpenAI's calls, and passes on those that limits and caps allow.

Each call passes the gate, holds what it may cost, asks the provider once, and is settled by what the answer says.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from steelyard_common.serving.openai import (
    EVENT_STREAM,
    PREFIXES,
    ErrorAnswer,
    check_content_type,
    model_not_found,
    openai_app,
)
from steelyard_evaluation.hosted.account import Account, CapBusy, CapReached, SpendingUnknown
from steelyard_evaluation.hosted.answers import EndlessEvent, EventStream, usage_in
from steelyard_evaluation.hosted.calls import Api, BadCall, Call, UnknownModel, prepare_call
from steelyard_evaluation.hosted.gate import Gate, RateLimited
from steelyard_evaluation.hosted.ledger import Tokens
from steelyard_evaluation.hosted.provider import BROKE_OFF, Answer, Provider, ProviderFailed
from steelyard_evaluation.hosted.snapshots import PATH, Snapshots
from steelyard_schema.egress import EgressRefused
from steelyard_schema.hosted_model import STOPPED, HostedModel

MAX_REQUEST_BYTES = 64 << 20
CAP_REACHED = "SpendCapReached"
_CLIENT_GONE = 499
"""Status of an answer that no client gets."""


@dataclass
class Proxy:
    """The parts of the server."""

    model: HostedModel
    gate: Gate
    account: Account
    provider: Provider
    warn: Callable[[str], None]
    snapshots: Snapshots = field(default_factory=Snapshots)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "chat")

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "completions")

    async def embeddings(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "embeddings")

    async def answer_snapshots(self, _: web.Request) -> web.StreamResponse:
        """Answer with the snapshots of the provider's model that answers have named so far."""
        return web.json_response(self.snapshots.json())

    async def _answer(self, request: web.Request, api: Api) -> web.StreamResponse:
        check_content_type(request)
        patience = float(self.model.queue_seconds)
        try:
            # Before the body is read: many large ones that come to nothing would fill the memory.
            self.gate.check(patience)
            self.account.check()
            sent = prepare_call(await request.read(), api, self.model)
            async with self.gate.turn(patience):
                await self.account.hold(sent.most, patience)
                if request.transport is None or request.transport.is_closing():
                    # The client is gone, and the answer has not been paid for.
                    self.account.settle(sent.most, Tokens(), calls=0)
                    return web.Response(status=_CLIENT_GONE)
                return await self._ask(request, sent)
        except BadCall as error:
            return ErrorAnswer(400, str(error), "BadRequest").response()
        except UnknownModel as error:
            return model_not_found(str(error), [self.model.model]).response()
        except RateLimited as error:
            return _busy("RateLimited", str(error), error.retry_after)
        except CapBusy as error:
            return _busy("SpendCapBusy", str(error), 2)
        except CapReached as error:
            self.warn(str(error))
            return ErrorAnswer(402, str(error), CAP_REACHED, kind=STOPPED).response()
        except SpendingUnknown as error:
            self.warn(str(error))
            return ErrorAnswer(503, str(error), "SpendingUnknown", retry_after="5").response()

    async def _ask(self, request: web.Request, sent: Call) -> web.StreamResponse:
        """Ask the provider, and settle the call however it ends."""
        used: Tokens | None = None
        try:
            async with self.provider.ask(sent) as answer:
                if sent.stream and answer.content_type == EVENT_STREAM:
                    response, used = await self._stream(request, sent, answer)
                    return response
                body = await self.provider.read(answer)
                used = usage_in(body)
                self.snapshots.note(body)
                return web.Response(body=body, status=answer.status, content_type=answer.content_type)
        except ProviderFailed as error:
            used = error.used
            return error.answer.response()
        except EgressRefused as error:
            used = Tokens()
            self.warn(str(error))
            return ErrorAnswer(424, str(error), "ProviderRefused", kind=STOPPED).response()
        finally:
            self.account.settle(sent.most, used, calls=int(used is None or bool(used)))

    async def _stream(
        self, request: web.Request, sent: Call, answer: Answer
    ) -> tuple[web.StreamResponse, Tokens | None]:
        """Pass a stream on, and return what it used; None where it did not come to its end."""
        events = EventStream(shows_usage=sent.shows_usage)
        client = _Client(request)
        await client.begin(answer)
        noted = False
        try:
            async for piece in answer.content.iter_any():
                for event in events.feed(piece):
                    passed_on = self.provider.without_key(event)
                    noted = noted or self.snapshots.note_event(passed_on)
                    await client.write(passed_on)
            for event in events.end():
                await client.write(self.provider.without_key(event))
        except (aiohttp.ClientError, TimeoutError, OSError, EndlessEvent) as error:
            text = f"the provider broke off: {type(error).__name__}"
            self.warn(f"a stream ended early: {text}")
            await client.write(ErrorAnswer(502, text, BROKE_OFF, kind="upstream_error").event)
            client.close()
            return client.response, None
        await client.end()
        return client.response, events.usage if events.done else None


class _Client:
    """The client of a stream. One that has gone ends nothing: the rest of the stream is paid, and reports its
    tokens."""

    def __init__(self, request: web.Request) -> None:
        self.response = web.StreamResponse()
        self._request = request
        self._gone = False

    async def begin(self, answer: Answer) -> None:
        self.response.set_status(answer.status)
        self.response.content_type = answer.content_type
        with self._leaving():
            await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        if not self._gone:
            with self._leaving():
                await self.response.write(data)

    async def end(self) -> None:
        if not self._gone:
            with self._leaving():
                await self.response.write_eof()

    def close(self) -> None:
        """Close the connection once all is sent: an end in good order would make the stream seem complete."""
        if self._request.transport is not None:
            self._request.transport.close()

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._gone = True


def make_app(proxy: Proxy) -> web.Application:
    """Make the server: the account is opened at its start, and closed once the calls in flight have ended."""

    async def ready(_: web.Request) -> web.Response:
        return web.json_response({"status": "ready"})

    async def open_services(_: web.Application) -> AsyncIterator[None]:
        await proxy.account.open()
        await proxy.provider.open()
        yield
        await proxy.provider.close()
        await proxy.account.close()

    app = openai_app([proxy.model.model], "provider", MAX_REQUEST_BYTES)
    app.cleanup_ctx.append(open_services)
    for prefix in PREFIXES:
        app.router.add_post(f"{prefix}/chat/completions", proxy.chat)
        app.router.add_post(f"{prefix}/completions", proxy.completions)
        app.router.add_post(f"{prefix}/embeddings", proxy.embeddings)
    app.router.add_get(PATH, proxy.answer_snapshots)
    for path in ("/ready", "/health"):
        app.router.add_get(path, ready)
    return app


def _busy(code: str, message: str, seconds: int) -> web.Response:
    return ErrorAnswer(429, message, code, retry_after=str(seconds)).response()
