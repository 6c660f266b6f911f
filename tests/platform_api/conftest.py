from collections.abc import AsyncIterator

import pytest

from tests.platform_api.memory_platform import MemoryPlatform, make_platform


@pytest.fixture
async def platform() -> AsyncIterator[MemoryPlatform]:
    """A platform that is new for each test."""
    async with make_platform() as made:
        yield made
