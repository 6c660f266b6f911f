"""Flows: sequences of requests, pauses and file transfers, written once for both clients.

A flow is a generator that yields steps and receives their results; `transport.py` carries the steps out, sync or async.
Single requests are calls (`calls.py`); the flows are in `flows.py`.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import httpx

from steelyard.client.call import Call

T = TypeVar("T")


@dataclass(frozen=True)
class Pause:
    """A pause of a number of seconds."""

    seconds: float


@dataclass(frozen=True)
class Carrier:
    """The means of a file transfer: an HTTP client without a token, and whether the caller has given up."""

    http: httpx.Client
    given_up: Callable[[], bool]


@dataclass(frozen=True)
class Work(Generic[T]):
    """A function that works with files, which takes a while; the async client runs it on a thread."""

    do: Callable[[Carrier], T]


Step: TypeAlias = Call[Any] | Pause | Work[Any]
Flow: TypeAlias = Generator[Step, Any, T]


def ask(call: Call[T]) -> Flow[T]:
    """Send a request and return the answer. Raises ApiError, UnexpectedAnswer, Unreachable."""
    answer: T = yield call
    return answer


def pause(seconds: float) -> Flow[None]:
    yield Pause(seconds)


def work(do: Callable[[Carrier], T]) -> Flow[T]:
    """Run a function that works with files, and return its result."""
    result: T = yield Work(do)
    return result
