"""The README's story while an engine's servers are cut off from everybody, or answer late.

STEELYARD_KILL_SEED repeats a run's choices; its remainder by four is the engine that is cut off.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from steelyard.cli.demo.digits import make
from steelyard.cli.demo.story import Story
from steelyard.cli.display import NoDisplay
from steelyard.local.state import read_platform, read_record
from tests.engines.services import together
from tests.engines.services.conftest import ServedMachine
from tests.engines.services.location import Cut
from tests.engines.services.proxy import Proxy
from tests.engines.services.service import Service
from tests.engines.services.together import ENGINES
from tests.integration.test_platform_kills import SEED, check, check_jobs, edit_labels

CUT_SECONDS = 15.0
LATE_SECONDS, LATEST_SECONDS = 0.1, 0.5
ANSWER_SECONDS = 90.0
"""Time within which the API answers every request, if only with 503."""

Proxies = dict[str, list[Proxy]]
Disturb = Callable[["asyncio.Task[object]"], Awaitable[None]]


@pytest.fixture
def proxies() -> Proxies:
    return {}


@pytest.fixture
def services(proxies: Proxies) -> Iterator[dict[str, Service]]:
    with together.behind_proxies(proxies) as services:
        yield services


async def tell(machine: ServedMachine, folder: Path, disturb: Disturb) -> None:
    """Tell the story, and disturb it; whatever was acknowledged is there in the end, once."""
    with machine.client(tries=60) as client, machine.client(tries=60) as editor:
        story = Story(client, NoDisplay(), timeout=1800)
        telling = asyncio.create_task(asyncio.to_thread(story.run, make(folder / "digits")))
        editing = asyncio.create_task(asyncio.to_thread(edit_labels, editor, telling))
        await disturb(telling)
        healed = time.monotonic()
        audited = await telling
        print(f"the story ended {time.monotonic() - healed:.0f} s later")
        edits = await editing
        await asyncio.to_thread(check, client, audited, edits)
    await check_jobs(machine)


async def ask(machine: ServedMachine, until: asyncio.Event) -> Counter[int]:
    """Ask the API for its datasets again and again; count the answers by their status."""
    api, token = read_platform(machine.state)
    answers: Counter[int] = Counter()
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=ANSWER_SECONDS) as client:
        while not until.is_set():
            answers[(await client.get(f"{api}/datasets")).status_code] += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), 0.5)
    return answers


async def cut_off(machine: ServedMachine, ways: Sequence[Cut], seconds: float) -> Counter[int]:
    """Cut servers off for a time, in which the API is asked: it must answer, and its process must not end."""
    healed = asyncio.Event()
    asking = asyncio.create_task(ask(machine, healed))
    for way in ways:
        way.cut()
    await asyncio.wait([asking], timeout=seconds)
    for way in ways:
        way.heal()
    healed.set()
    answers = await asking
    assert set(answers) <= {200, 503}, answers
    return answers


@pytest.mark.timeout(1800)
async def test_the_story_runs_while_an_engine_is_cut_off(
    machine: ServedMachine, proxies: Proxies, tmp_path: Path
) -> None:
    rng, engine = random.Random(SEED), ENGINES[SEED % len(ENGINES)]

    async def disturb(telling: "asyncio.Task[object]") -> None:
        await asyncio.wait([telling], timeout=rng.uniform(2.0, 8.0))
        assert not telling.done(), "the story ended before its engine was cut off"
        answers = await cut_off(machine, proxies[engine], CUT_SECONDS)
        print(f"{engine} was cut off for {CUT_SECONDS:.0f} s; the API answered {dict(answers)}")

    print(f"\nSTEELYARD_KILL_SEED={SEED}")
    assert machine.config("init").returncode == 0
    machine.up()
    await tell(machine, tmp_path, disturb)
    assert not any(read_record(machine.state).restarts.values()), "a process ended"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seconds", [LATE_SECONDS, pytest.param(LATEST_SECONDS, marks=pytest.mark.soak)])
async def test_the_story_runs_on_engines_that_answer_late(
    machine: ServedMachine, proxies: Proxies, tmp_path: Path, seconds: float
) -> None:
    for of_engine in proxies.values():
        for proxy in of_engine:
            proxy.slow_down(seconds)

    async def nothing(_telling: "asyncio.Task[object]") -> None:
        return

    assert machine.config("init").returncode == 0
    machine.up()
    await tell(machine, tmp_path, nothing)
    assert not any(read_record(machine.state).restarts.values()), "a process ended"


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engines", [*((engine,) for engine in ENGINES), ENGINES], ids=[*ENGINES, "all"])
async def test_engines_are_cut_off_for_a_minute(
    machine: ServedMachine, proxies: Proxies, tmp_path: Path, engines: Sequence[str]
) -> None:
    rng = random.Random(SEED)
    print(f"\nSTEELYARD_KILL_SEED={SEED}")
    assert machine.config("init").returncode == 0
    machine.up()

    async def disturb(telling: "asyncio.Task[object]") -> None:
        await asyncio.wait([telling], timeout=rng.uniform(1.0, 6.0))
        assert not telling.done(), "the story ended before its engines were cut off"
        servers = [proxy for engine in engines for proxy in proxies[engine]]
        answers = await cut_off(machine, servers, 60.0)
        print(f"{engines} were cut off for 60 s; the API answered {dict(answers)}")

    await tell(machine, tmp_path, disturb)
    assert not any(read_record(machine.state).restarts.values()), "a process ended"
