"""Both forms of the client, asked the same."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from steelyard.client.retries import Retries
from steelyard.testing.platform import FakePlatform

Ask = Callable[..., Any]


def ask_sync(fake: FakePlatform, do: Callable[[Any], Any], retries: Retries | None = None) -> Any:
    with fake.client(*([retries] if retries else [])) as client:
        answer = do(client)
        return list(answer) if hasattr(answer, "__next__") else answer


def ask_async(fake: FakePlatform, do: Callable[[Any], Any], retries: Retries | None = None) -> Any:
    async def answer_of() -> Any:
        async with fake.async_client(*([retries] if retries else [])) as client:
            answer = do(client)
            return [item async for item in answer] if hasattr(answer, "__anext__") else await answer

    return asyncio.run(answer_of())


@pytest.fixture(params=[ask_sync, ask_async], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """`ask(fake, lambda client: client.datasets.get(id))` is the answer, whichever client."""
    way: Ask = request.param
    return way


@pytest.fixture
def fake() -> FakePlatform:
    return FakePlatform()
