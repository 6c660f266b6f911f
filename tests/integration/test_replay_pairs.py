"""One history, replayed into every embedded log and view: all of them hold the same, byte for byte."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random

import pytest

from steelyard.broker.log import Message
from tests.integration.replaying import check_pairs, random_history, recorded_story

HISTORIES: dict[str, Callable[[], Sequence[Message]]] = {
    "the story": recorded_story,
    "a random history": lambda: random_history(Random(13)),
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("history", HISTORIES)
async def test_embedded_pairs_hold_the_same(history: str, tmp_path: Path) -> None:
    numbers = count()
    logs = {"memory": "memory:", "SQLite": f"sqlite:{tmp_path}/log.db"}
    views = {"memory": lambda: "memory:", "SQLite": lambda: f"sqlite:{tmp_path}/view{next(numbers)}.db"}
    assert await check_pairs(HISTORIES[history](), logs, views) >= 8
