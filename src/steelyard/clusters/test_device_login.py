"""Logins by device code, against a provider on this machine."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from steelyard.clusters.device_login import DeviceLogin, Prompt
from steelyard_common.types import Json
from steelyard_kube.exec_login import LoginFailed


class Provider:
    """Answers to requests for tokens come from `answers`, in order."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Json]] = []
        self.forms: list[dict[str, Any]] = []
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self.places)
        app.router.add_post("/device", self.device)
        app.router.add_post("/token", self.token)
        return app

    async def places(self, request: web.Request) -> web.Response:
        places = {
            "token_endpoint": f"{self.url}/token",
            "device_authorization_endpoint": f"{self.url}/device",
        }
        return web.json_response(places)

    async def device(self, request: web.Request) -> web.Response:
        started = {"device_code": "d", "user_code": "AB-CD", "verification_uri": f"{self.url}/go"}
        return web.json_response({**started, "interval": 5, "expires_in": 60})

    async def token(self, request: web.Request) -> web.Response:
        self.forms.append(dict(await request.post()))
        status, answer = self.answers.pop(0)
        return web.json_response(answer, status=status)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    runner = web.AppRunner(provider.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield provider
    await runner.cleanup()


class Clock:
    def __init__(self) -> None:
        self.now, self.pauses = 1000.0, list[float]()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def login(provider: Provider, clock: Clock, shown: list[Prompt]) -> DeviceLogin:
    return DeviceLogin(provider.url, "kubernetes", show=shown.append, sleep=clock.sleep, clock=clock)


def identity(expires: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"head.{claims}.signature"


PENDING = (400, {"error": "authorization_pending"})


async def test_a_person_is_asked_once_and_the_token_is_renewed_without_asking(provider: Provider) -> None:
    clock, shown = Clock(), list[Prompt]()
    device = login(provider, clock, shown)
    provider.answers = [
        PENDING,
        (400, {"error": "slow_down"}),
        (200, {"id_token": identity(1100), "refresh_token": "r"}),
        (200, {"id_token": identity(2000)}),
    ]
    assert (await device.current()).token == identity(1100)
    assert clock.pauses == [5, 5, 10]
    assert [prompt.code for prompt in shown] == ["AB-CD"]
    assert (await device.current()).token == identity(1100)
    clock.now = 1095
    assert (await device.current()).token == identity(2000)
    assert provider.forms[-1]["refresh_token"] == "r"
    assert len(shown) == 1


async def test_a_token_that_the_cluster_refuses_is_requested_again(provider: Provider) -> None:
    clock, shown = Clock(), list[Prompt]()
    device = login(provider, clock, shown)
    provider.answers = [(200, {"access_token": "a"}), (200, {"access_token": "b"})]
    first = await device.current()
    device.note_refusal(first)
    assert (await device.current()).token == "b"
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([(400, {"error": "access_denied"})], "access_denied"),
        ([(400, {"error": "expired_token", "error_description": "too late"})], "too late"),
        ([PENDING] * 12, "nobody has logged in"),
        ([(200, {})], "without a token"),
    ],
)
async def test_a_login_that_fails_says_why(provider: Provider, answers: list[Any], said: str) -> None:
    provider.answers = list(answers)
    with pytest.raises(LoginFailed, match=said):
        await login(provider, Clock(), []).current()


async def test_a_provider_that_is_silent_is_named() -> None:
    with pytest.raises(LoginFailed, match=r"127\.0\.0\.1:1"):
        await DeviceLogin("http://127.0.0.1:1", "kubernetes").current()
