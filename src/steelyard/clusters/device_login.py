"""Logins in the browser of any device, by OpenID Connect: the device authorization grant (RFC 8628).

    login = DeviceLogin("https://sso.example.com/realms/team", "kubernetes")
    client = Client(server="https://api.example.com:6443", login=login)

The first request shows an address and a code; the person who opens the address and agrees is logged in. The token is
renewed with the refresh token, without asking again.
"""

import asyncio
import base64
import binascii
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from steelyard_common.types import Json
from steelyard_kube.exec_login import MARGIN, Credential, LoginFailed

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
LOGIN_SECONDS = 600.0
"""Time for a person to log in, where the provider names none."""


@dataclass(frozen=True)
class Prompt:
    """Address where a person logs in, and the code to type there. `complete` is the address with the code in it."""

    address: str
    code: str
    complete: str = ""


def on_stderr(prompt: Prompt) -> None:
    print(
        f"To log in, open {prompt.complete or prompt.address} and check that it shows the code {prompt.code}",
        file=sys.stderr,
        flush=True,
    )


class DeviceLogin:
    """Login at an OpenID Connect provider. `show` shows a person where to log in.

    `ca_file` names the provider's authority, unless it is a public one.
    """

    def __init__(  # noqa: PLR0913
        self,
        issuer: str,
        client_id: str,
        *,
        client_secret: str = "",
        scopes: tuple[str, ...] = ("openid", "offline_access"),
        show: Callable[[Prompt], None] = on_stderr,
        ca_file: str | None = None,
        sleep: Callable[[float], Any] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuer = issuer.rstrip("/")
        self._client = {"client_id": client_id}
        if client_secret:
            self._client["client_secret"] = client_secret
        self._scopes, self._show, self._ca_file = scopes, show, ca_file
        self._sleep, self._clock = sleep, clock
        self._newest: Credential | None = None
        self._refresh = ""
        self._asking = asyncio.Lock()

    async def current(self) -> Credential:
        """Return a token that is good; asks a person only where no refresh token helps. Raises LoginFailed."""
        async with self._asking:  # one question, however many requests wait
            newest = self._newest
            if newest is None or (newest.expires is not None and self._now() >= newest.expires - MARGIN):
                self._newest = None  # also where the login fails
                self._newest = newest = await self._log_in()
            return newest

    def note_refusal(self, credential: Credential) -> None:
        if self._newest is credential:
            self._newest = None

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    async def _log_in(self) -> Credential:
        places = await self._document(f"{self._issuer}/.well-known/openid-configuration")
        tokens = str(places.get("token_endpoint") or "")
        if self._refresh:
            form = {"grant_type": "refresh_token", "refresh_token": self._refresh, **self._client}
            status, answer = await self._post(tokens, form)
            if status == 200:
                return self._credential(answer)
            self._refresh = ""  # it has ended: a person has to log in again
        start = str(places.get("device_authorization_endpoint") or "")
        if not start or not tokens:
            raise LoginFailed(f"{self._issuer} offers no login by device code")
        status, answer = await self._post(start, {"scope": " ".join(self._scopes), **self._client})
        if status != 200 or "device_code" not in answer:
            raise LoginFailed(f"{self._issuer} refuses the login: {_reason(answer, status)}")
        address = str(answer.get("verification_uri") or answer.get("verification_url") or "")
        complete = str(answer.get("verification_uri_complete") or "")
        self._show(Prompt(address, str(answer.get("user_code", "")), complete))
        return await self._poll(tokens, answer)

    async def _poll(self, tokens: str, started: Json) -> Credential:
        """Ask, as often as the provider allows, until the person has agreed."""
        pause = float(started.get("interval") or 5)
        end = self._clock() + float(started.get("expires_in") or LOGIN_SECONDS)
        form = {"grant_type": GRANT, "device_code": str(started["device_code"]), **self._client}
        while True:
            await self._sleep(pause)
            status, answer = await self._post(tokens, form)
            match status, answer.get("error"):
                case 200, None:
                    return self._credential(answer)
                case _, "authorization_pending":
                    pass
                case _, "slow_down":
                    pause += 5
                case _:
                    raise LoginFailed(f"{self._issuer} refuses the login: {_reason(answer, status)}")
            if self._clock() >= end:
                raise LoginFailed(f"nobody has logged in at {self._issuer} in time")

    def _credential(self, answer: Json) -> Credential:
        # Kubernetes reads the identity from the ID token; providers that give none are set up for access tokens.
        token = str(answer.get("id_token") or answer.get("access_token") or "")
        if not token:
            raise LoginFailed(f"{self._issuer} has answered without a token")
        self._refresh = str(answer.get("refresh_token") or self._refresh)
        seconds = answer.get("expires_in")
        expires = self._now() + timedelta(seconds=float(seconds)) if seconds else None
        return Credential(token, expires=_expiry(token) or expires)

    async def _document(self, url: str) -> Json:
        status, answer = await self._request("GET", url)
        if status != 200:
            raise LoginFailed(f"{url} answers {status}: is the issuer right?")
        return answer

    async def _post(self, url: str, form: dict[str, str]) -> tuple[int, Json]:
        return await self._request("POST", url, form)

    async def _request(self, method: str, url: str, form: dict[str, str] | None = None) -> tuple[int, Json]:
        import ssl

        import aiohttp

        from steelyard_common.connections import TrackingConnector

        tls = ssl.create_default_context(cafile=self._ca_file) if self._ca_file else True
        try:
            async with (
                aiohttp.ClientSession(
                    connector=TrackingConnector(), timeout=aiohttp.ClientTimeout(total=30)
                ) as session,
                session.request(method, url, data=form, ssl=tls) as answer,
            ):
                content = json.loads(await answer.text() or "{}")
                return answer.status, content if isinstance(content, dict) else {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise LoginFailed(f"{url}: {str(error) or type(error).__name__}") from None


def _reason(answer: Json, status: int) -> str:
    return str(answer.get("error_description") or answer.get("error") or f"it answers {status}")


def _expiry(token: str) -> datetime | None:
    """Return the time at which a token ends, if the token (a JWT) has it."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(float(claims["exp"]), UTC)
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None
