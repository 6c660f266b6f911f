"""Carries out calls and flows, sync and async: the one place of the client that does I/O and waits."""

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import httpx

from steelyard.client.call import Call
from steelyard.client.connection import Connection
from steelyard.client.errors import ClientError, Unreachable
from steelyard.client.flow import Carrier, Flow, Pause, Step, Work
from steelyard.client.retries import Retries
from steelyard_common import __version__

T = TypeVar("T")


@dataclass
class Sender:
    """State that both clients need: the connection, and the rules for sending requests again."""

    connection: Connection
    retries: Retries
    met: bool = False
    """True if the platform has ever answered this client."""

    def request(self, call: Call[T]) -> httpx.Request:
        """Return the HTTP request of a call. All tries send the same one: id and idempotency key stay the same."""
        headers = {
            "Authorization": f"Bearer {self.connection.token}",
            "Accept": "application/json",
            "User-Agent": f"steelyard-client/{__version__}",
            # One id for all tries of a call, by which the platform's logs can be searched.
            "X-Request-Id": uuid.uuid4().hex,
            **call.headers,
        }
        return httpx.Request(
            call.method,
            f"{self.connection.endpoint}{call.path}",
            params=dict(call.params) or None,
            json=call.json,
            headers=headers,
            extensions={"timeout": httpx.Timeout(call.seconds, connect=10.0).as_dict()},
        )

    def after_answer(self, number: int, call: Call[T], response: httpx.Response) -> float | None:
        # Any answer counts, also a refusal: the address is right, so a fault later on is a restart, which takes
        # longer.
        self.met = True
        return self.retries.after_answer(number, response, repeatable=call.repeatable)

    def after_fault(self, number: int, call: Call[T], error: httpx.RequestError) -> float:
        """Return the pause before the next try. Raises Unreachable if there is none."""
        pause = self.retries.after_fault(number, error, met=self.met, repeatable=call.repeatable)
        if pause is not None:
            return pause
        text = str(error) or type(error).__name__
        raise Unreachable(
            f"{self.connection.endpoint} does not answer: {text}; does it run? (steelyard status)"
        ) from error


@dataclass
class Transport:
    """The sync transport. `http` sends requests to the platform, `files` transfers files."""

    sender: Sender
    http: httpx.Client
    files: httpx.Client
    sleep: Callable[[float], None] = time.sleep

    def send(self, call: Call[T]) -> T:
        """Return the answer to a call. Raises ApiError, UnexpectedAnswer, Unreachable."""
        request, number = self.sender.request(call), 1
        while True:
            try:
                response = self.http.send(request)
            except httpx.RequestError as error:
                pause: float | None = self.sender.after_fault(number, call, error)
            else:
                pause = self.sender.after_answer(number, call, response)
                if pause is None:
                    return call.read(response)
            self.sleep(pause or 0.0)
            number += 1

    def run(self, flow: Flow[T]) -> T:
        """Carry out the steps of a flow; return and raise what it returns and raises."""
        try:
            step = next(flow)
            while True:
                try:
                    result = self._end(step)
                except ClientError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as end:
            returned: T = end.value
            return returned

    def _end(self, step: Step) -> object:
        if isinstance(step, Pause):
            self.sleep(step.seconds)
            return None
        return step.do(Carrier(self.files, lambda: False)) if isinstance(step, Work) else self.send(step)


@dataclass
class AsyncTransport:
    """The asyncio transport; files are transferred on threads."""

    sender: Sender
    http: httpx.AsyncClient
    files: httpx.Client
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)

    async def send(self, call: Call[T]) -> T:
        """Return the answer to a call. Raises ApiError, UnexpectedAnswer, Unreachable."""
        request, number = self.sender.request(call), 1
        while True:
            try:
                response = await self.http.send(request)
            except httpx.RequestError as error:
                pause: float | None = self.sender.after_fault(number, call, error)
            else:
                pause = self.sender.after_answer(number, call, response)
                if pause is None:
                    return call.read(response)
            await self.sleep(pause or 0.0)
            number += 1

    async def run(self, flow: Flow[T]) -> T:
        """Carry out the steps of a flow; return and raise what it returns and raises."""
        try:
            step = next(flow)
            while True:
                try:
                    result = await self._end(step)
                except ClientError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as end:
            returned: T = end.value
            return returned

    async def _end(self, step: Step) -> object:
        if isinstance(step, Pause):
            await self.sleep(step.seconds)
            return None
        return await (self._on_thread(step) if isinstance(step, Work) else self.send(step))

    async def _on_thread(self, step: Work[T]) -> T:
        """Run a step on a thread. A thread cannot be cancelled: it checks `given_up` between two pieces of a file."""
        given_up = threading.Event()
        try:
            return await asyncio.to_thread(step.do, Carrier(self.files, given_up.is_set))
        finally:
            # Also when this task was cancelled: the thread goes on to the end of the piece that it is at, and stops
            # there.
            given_up.set()
