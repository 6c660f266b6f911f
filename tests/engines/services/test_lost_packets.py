"""The README's story while an engine's packets are lost, each engine in a network namespace of its own.

STEELYARD_KILL_SEED repeats a run's choices. Without root these are left out; `test_partitions.py` needs none.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from steelyard.local.state import read_record
from tests.engines.build import Missing
from tests.engines.services import together
from tests.engines.services.conftest import ServedMachine
from tests.engines.services.network import Network, require
from tests.engines.services.service import Service
from tests.engines.services.test_partitions import cut_off, tell
from tests.engines.services.together import ENGINES
from tests.integration.test_platform_kills import SEED

RNG = random.Random(SEED)
DRAWN = RNG.choice(ENGINES)
SILENT = RNG.random() < 0.5

Networks = dict[str, list[Network]]


@dataclass(frozen=True)
class Cuts:
    """Engines that are cut off at once, for how long, and whether the machine notices it (`Network`)."""

    engines: Sequence[str]
    seconds: float
    silent: bool

    def __str__(self) -> str:
        return f"{' '.join(self.engines)}, {self.seconds:.0f} s, {'silent' if self.silent else 'no route'}"


LONG = [Cuts(engines, 60.0, silent) for engines in (*zip(ENGINES), ENGINES) for silent in (True, False)]


@pytest.fixture(
    params=[Cuts((DRAWN,), 15.0, SILENT), *(pytest.param(cuts, marks=pytest.mark.soak) for cuts in LONG)],
    ids=str,
)
def cuts(request: pytest.FixtureRequest) -> Cuts:
    cuts = request.param
    assert isinstance(cuts, Cuts)
    return cuts


@pytest.fixture
def networks() -> Networks:
    return {}


@pytest.fixture
def services(cuts: Cuts, networks: Networks) -> Iterator[dict[str, Service]]:
    try:
        require()
    except Missing as missing:
        pytest.skip(str(missing))
    with together.in_networks(networks, silent=cuts.silent) as services:
        yield services


@pytest.mark.timeout(1800)
async def test_the_story_runs_while_packets_are_lost(
    machine: ServedMachine, networks: Networks, cuts: Cuts, tmp_path: Path
) -> None:
    async def disturb(telling: "asyncio.Task[object]") -> None:
        await asyncio.wait([telling], timeout=RNG.uniform(2.0, 8.0))
        assert not telling.done(), "the story ended before its engine was cut off"
        links = [network for engine in cuts.engines for network in networks[engine]]
        answers = await cut_off(machine, links, cuts.seconds)
        print(f"{cuts}: the API answered {dict(answers)}")

    print(f"\nSTEELYARD_KILL_SEED={SEED}")
    assert machine.config("init").returncode == 0
    machine.up()
    await tell(machine, tmp_path, disturb)
    assert not any(read_record(machine.state).restarts.values()), "a process ended"
