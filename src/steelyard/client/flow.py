"""What takes several requests, pauses and files, written once for both clients.

A flow is a generator that yields steps and is sent what became of them; `transport.py` carries the steps out, sync or
async. Single requests are calls (`calls.py`); flows are in `flows.py`.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import httpx

from steelyard.client.call import Call

T = TypeVar("T")


@dataclass(frozen=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Carrier:
    """What carries files: a connection without a token, and whether the caller has given up."""

    http: httpx.Client
    given_up: Callable[[], bool]


@dataclass(frozen=True)
class Work(Generic[T]):
    """Something with files, which takes a while; the async client does it on a thread."""

    do: Callable[[Carrier], T]


Step: TypeAlias = Call[Any] | Pause | Work[Any]
Flow: TypeAlias = Generator[Step, Any, T]


def ask(call: Call[T]) -> Flow[T]:
    """The answer. Raises ApiError, UnexpectedAnswer, Unreachable."""
    answer: T = yield call
    return answer


def pause(seconds: float) -> Flow[None]:
    yield Pause(seconds)


def work(do: Callable[[Carrier], T]) -> Flow[T]:
    """What the function returns."""
    result: T = yield Work(do)
    return result
