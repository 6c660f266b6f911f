"""The server of a hosted model: takes OpenAI's calls, and passes on those that limits and caps allow.

Each call passes the gate, holds what it may cost, asks the provider once, and is settled by what the answer says.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from steelyard.egress.policy import EgressRefused
from steelyard.hosted.account import Account, CapBusy, CapReached, SpendingUnknown
from steelyard.hosted.answers import EndlessEvent, EventStream, usage_in
from steelyard.hosted.calls import Api, BadCall, Call, prepare_call
from steelyard.hosted.gate import Gate, RateLimited
from steelyard.hosted.ledger import Tokens
from steelyard.hosted.provider import Answer, Failure, Provider, ProviderFailed
from steelyard.hosted.snapshots import PATH, Snapshots
from steelyard.schema.hosted_model import STOPPED, HostedModel

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

    async def models(self, _: web.Request) -> web.StreamResponse:
        """Answer with the one model that there is, without asking the provider."""
        model = {"id": self.model.model, "object": "model", "created": 0, "owned_by": "provider"}
        return web.json_response({"object": "list", "data": [model]})

    async def seen(self, _: web.Request) -> web.StreamResponse:
        """Answer with the snapshots of the provider's model that answers have named so far."""
        return web.json_response(self.snapshots.json())

    async def _answer(self, request: web.Request, api: Api) -> web.StreamResponse:
        patience = float(self.model.queue_seconds)
        try:
            # Before the body is read: many large ones that come to nothing would fill the memory.
            self.gate.check(patience)
            self.account.check()
            sent = prepare_call(await request.read(), api, self.model)
            async with self.gate.passed(patience):
                await self.account.hold(sent.most, patience)
                if request.transport is None or request.transport.is_closing():
                    # The client is gone, and the answer has not been paid for.
                    self.account.settle(sent.most, Tokens(), calls=0)
                    return web.Response(status=_CLIENT_GONE)
                return await self._ask(request, sent)
        except BadCall as error:
            return _response(Failure(400, "BadRequest", str(error), kind="invalid_request_error"))
        except RateLimited as error:
            return _response(_busy("RateLimited", str(error), error.retry_after))
        except CapBusy as error:
            return _response(_busy("SpendCapBusy", str(error), 2))
        except CapReached as error:
            self.warn(str(error))
            return _response(Failure(402, CAP_REACHED, str(error), kind=STOPPED))
        except SpendingUnknown as error:
            self.warn(str(error))
            return _response(Failure(503, "SpendingUnknown", str(error), retry_after="5"))

    async def _ask(self, request: web.Request, sent: Call) -> web.StreamResponse:
        """Ask the provider, and settle the call however it ends."""
        used: Tokens | None = None
        try:
            async with self.provider.ask(sent) as answer:
                if sent.stream and answer.content_type == "text/event-stream":
                    response, used = await self._stream(request, sent, answer)
                    return response
                body = await self.provider.read(answer)
                used = usage_in(body)
                self.snapshots.note(body)
                return web.Response(body=body, status=answer.status, content_type=answer.content_type)
        except ProviderFailed as error:
            used = error.used
            return _response(error.failure)
        except EgressRefused as error:
            used = Tokens()
            self.warn(str(error))
            return _response(Failure(424, "ProviderRefused", str(error), kind=STOPPED))
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
            self.warn(f"a stream of the provider broke off: {type(error).__name__}")
            client.abort()
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

    def abort(self) -> None:
        """Break the connection: an end in good order would make the stream seem complete."""
        if self._request.transport is not None:
            self._request.transport.abort()

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

    async def opened(_: web.Application) -> AsyncIterator[None]:
        await proxy.account.open()
        await proxy.provider.open()
        yield
        await proxy.provider.close()
        await proxy.account.close()

    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app.cleanup_ctx.append(opened)
    for prefix in ("/v1", "/openai/v1"):
        app.router.add_post(f"{prefix}/chat/completions", proxy.chat)
        app.router.add_post(f"{prefix}/completions", proxy.completions)
        app.router.add_post(f"{prefix}/embeddings", proxy.embeddings)
        app.router.add_get(f"{prefix}/models", proxy.models)
    app.router.add_get(PATH, proxy.seen)
    for path in ("/ready", "/health"):
        app.router.add_get(path, ready)
    return app


def _busy(code: str, message: str, seconds: int) -> Failure:
    return Failure(429, code, message, kind="rate_limit_error", retry_after=str(seconds))


def _response(failure: Failure) -> web.Response:
    headers = {"Retry-After": failure.retry_after} if failure.retry_after else {}
    return web.Response(
        body=failure.body, status=failure.status, headers=headers, content_type="application/json"
    )
