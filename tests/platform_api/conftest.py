from collections.abc import AsyncIterator

import pytest

from tests.platform_api.world import World, make_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A platform that is new for each test."""
    async with make_world() as made:
        yield made
