"""Sends calls: the one place of the client that does I/O, once sync and once async."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

from steelyard.client.call import Call
from steelyard.client.connection import Connection
from steelyard.client.errors import Unreachable
from steelyard.client.retries import Retries

T = TypeVar("T")
TIMEOUT = httpx.Timeout(30.0)


def _request(connection: Connection, call: Call[T]) -> httpx.Request:
    headers = {"Authorization": f"Bearer {connection.token}", "Accept": "application/json", **call.headers}
    return httpx.Request(
        call.method,
        f"{connection.endpoint}{call.path}",
        params=dict(call.params) or None,
        json=call.json,
        headers=headers,
        extensions={"timeout": TIMEOUT.as_dict()},
    )


def _unreachable(connection: Connection, error: Exception) -> Unreachable:
    said = str(error) or type(error).__name__
    return Unreachable(f"{connection.endpoint} does not answer: {said}; does it run? (steelyard status)")


class Transport:
    """Sync. `sleep` is for tests."""

    def __init__(
        self,
        connection: Connection,
        http: httpx.Client,
        retries: Retries,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.connection, self.http = connection, http
        self._retries, self._sleep = retries, sleep

    def send(self, call: Call[T]) -> T:
        """The answer. Raises ApiError, Unreachable."""
        number = 1
        while True:
            response, fault = self._once(call)
            pause = self._retries.pause(number, response)
            if response is not None and (not response.is_error or pause is None):
                return call.read(response)
            if pause is None:
                raise _unreachable(self.connection, fault or OSError()) from fault
            self._sleep(pause)
            number += 1

    def _once(self, call: Call[T]) -> tuple[httpx.Response | None, Exception | None]:
        try:
            return self.http.send(_request(self.connection, call)), None
        except httpx.TransportError as error:
            return None, error


class AsyncTransport:
    """Async."""

    def __init__(self, connection: Connection, http: httpx.AsyncClient, retries: Retries) -> None:
        self.connection, self.http = connection, http
        self._retries = retries

    async def send(self, call: Call[T]) -> T:
        """The answer. Raises ApiError, Unreachable."""
        number = 1
        while True:
            response, fault = await self._once(call)
            pause = self._retries.pause(number, response)
            if response is not None and (not response.is_error or pause is None):
                return call.read(response)
            if pause is None:
                raise _unreachable(self.connection, fault or OSError()) from fault
            await asyncio.sleep(pause)
            number += 1

    async def _once(self, call: Call[T]) -> tuple[httpx.Response | None, Exception | None]:
        try:
            return await self.http.send(_request(self.connection, call)), None
        except httpx.TransportError as error:
            return None, error
