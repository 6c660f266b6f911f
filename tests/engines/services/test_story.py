"""The README's story on Kafka, PostgreSQL, S3 and MongoDB's protocol, each server killed while it is told.

Beside it a data source is fetched with a secret, a provider answers its rows for money, and a webhook is told of every
end: what the hub, the provider and the receiver count must agree with what the platform says.

STEELYARD_KILL_SEED repeats a run's choices.
"""

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from steelyard.accounts.postgresql.schema import newest
from steelyard.cli.demo.digits import make
from tests.engines.services import together
from tests.engines.services.conftest import ServedMachine
from tests.engines.services.outside import allow, check, outside, prepare
from tests.engines.services.service import Service
from tests.integration.conftest import Machine
from tests.integration.test_platform_kills import SEED, strike, tell_with_kills

KILLS = 6
VICTIMS = [
    *("broker 0", "postgresql", "s3", "platform", "broker 1"),
    *("mongodb", "operator", "broker 2", "kubernetes", "supervisor"),
]


@pytest.fixture
def services() -> Iterator[dict[str, Service]]:
    with together.services() as services:
        yield services


def test_engines_are_checked_and_made_ready(machine: ServedMachine, services: dict[str, Service]) -> None:
    early = machine.config("check")
    assert (early.returncode, early.stderr) == (3, "")
    assert "has no tables of Steelyard yet; `steelyard config init` makes them" in early.stdout
    made = machine.config("init").stdout
    assert f"schema {newest()}: made" in made
    assert "topics: made" in made
    assert "indexes: ready" in made
    again = machine.config("init").stdout
    assert f"schema {newest()}: up to date" in again
    assert "topics: up to date" in again
    good = machine.config("check")
    assert good.returncode == 0, good.stdout
    assert "reads and writes all tables, clock " in good.stdout
    assert good.stdout.count("writes, copies, lists and removes, creates once, clock ") == 2
    assert not machine.state.path.exists(), "a check makes nothing"
    assert "transactions, " in good.stdout
    services["postgresql"].kill()
    away = machine.config("check")
    assert away.returncode == 3
    assert "CANNOT BE USED: accounts postgresql://postgres@127.0.0.1:" in away.stdout
    assert machine.config("init").returncode == 1
    services["postgresql"].start()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(SEED % len(VICTIMS), id="drawn"),
        *(pytest.param(n, marks=pytest.mark.soak) for n in range(0, len(VICTIMS), 2)),
    ],
)
async def test_the_story_runs_while_servers_and_services_are_killed(
    machine: ServedMachine, services: dict[str, Service], tmp_path: Path, first: int
) -> None:
    """The victims' turn begins with a drawn one; the long form begins with every second one."""
    print(f"\nSTEELYARD_KILL_SEED={SEED}")
    async with outside() as place:
        allow(machine, place.hub.origin)
        assert machine.config("init").returncode == 0
        machine.up()
        with machine.client(tries=30) as client:
            made = await asyncio.to_thread(prepare, client, place)
            kills = await tell_with_kills(
                machine,
                make(tmp_path / "digits"),
                KILLS,
                cycle(VICTIMS[first:] + VICTIMS[:first]),
                random.Random(SEED),
                partial(strike_any, services),
            )
            assert kills >= 2, "the story ended before its engines were killed"
            folders = {service.folder for service in services.values()}
            await check(client, place, made, folders)


def strike_any(services: dict[str, Service], machine: Machine, victim: str) -> None:
    """SIGKILL to all processes of a server, which is then started again, or to one of our own."""
    if victim in services:
        services[victim].kill()
        services[victim].start()
    else:
        strike(machine, victim)
