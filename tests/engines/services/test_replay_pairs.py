"""One history, replayed into every log and from each into every view: all pairs hold the same, byte for byte.

`tests/integration/test_replay_pairs.py` does it with the embedded ones alone.
"""

import os
import secrets
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.engines.services.kafka import kafka
from tests.engines.services.mongodb import mongodb
from tests.engines.services.suite import KAFKA, MONGODB
from tests.integration.replaying import check_pairs
from tests.integration.test_replay_pairs import HISTORIES


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    if address := os.environ.get(KAFKA):
        yield address
    else:
        with kafka() as cluster:
            yield cluster.address


@pytest.fixture(scope="module")
def documents() -> Iterator[str]:
    if address := os.environ.get(MONGODB):
        yield address
    else:
        with mongodb() as service:
            yield service.address


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("history", HISTORIES)
async def test_every_pair_holds_the_same(history: str, brokers: str, documents: str, tmp_path: Path) -> None:
    numbers = count()
    prefix = f"replay-{secrets.token_hex(4)}"
    logs = {"SQLite": f"sqlite:{tmp_path}/log.db", "Kafka": f"{brokers}/{prefix}"}
    views = {
        "SQLite": lambda: f"sqlite:{tmp_path}/view{next(numbers)}.db",
        "MongoDB": lambda: documents.replace("/steelyard?", f"/{prefix}-{next(numbers)}?"),
    }
    assert await check_pairs(HISTORIES[history](), logs, views) >= 8
