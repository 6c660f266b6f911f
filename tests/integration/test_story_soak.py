"""The README's story while everything happens that befalls a machine in years: kills, a full disk, a frozen machine,
a clock that is set forward or back, files that are gone.

Each round has a machine of its own and ends Complete: nothing that was acknowledged is lost, nothing runs twice, no
process is left. STEELYARD_KILL_SEED repeats a run's choices, STEELYARD_SOAK_ROUNDS says how many rounds there are. Of a
round that fails, the state folder is kept next to it.
"""

import asyncio
import contextlib
import math
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steelyard.cli.demo.digits import Digits, make
from steelyard.cli.demo.story import Story
from steelyard.cli.display import NoDisplay
from steelyard.local.leftovers import end_leftovers
from steelyard.local.state import read_record
from steelyard_common.errors import SteelyardError
from steelyard_common.types import Json
from tests.disk import Disk, small_disk
from tests.integration.conftest import Machine, processes_of
from tests.integration.test_platform_kills import (
    SEED,
    VICTIMS,
    check,
    check_jobs,
    edit_labels,
    ended,
    jobs_of,
    strike,
)
from tests.stepped_clock import MOST_SECONDS, SteppedClock, stepped_clock

pytestmark = [pytest.mark.e2e, pytest.mark.soak]
ROUNDS = int(os.environ.get("STEELYARD_SOAK_ROUNDS") or 100)
MEBIBYTES = 400
PAUSE = (1.0, 6.0)
FULL, FROZEN = (2.0, 8.0), (2.0, 20.0)
"""Seconds; a lease is 15 of them."""
FILES = (
    "hosts", "kubeconfig", "platform.json", "ready.json", "sleeps.json", "view.db", "log.db", "accounts.db",
    "kubernetes.db",
)  # fmt: skip
"""The administrator's token is left alone: a lost one is revoked when another is made, and the client would end."""
MOST_FAULTS = 8
"""Number of faults in one telling of the story, at most."""
STEP = (60.0, MOST_SECONDS)
"""Seconds by which a clock is set; short steps are as likely as long ones."""


@dataclass(frozen=True)
class FaultTargets:
    """Targets of faults. There is no clock where none can be made."""

    machine: Machine
    disk: Disk
    clock: SteppedClock | None
    jobs: list[Json] = field(default_factory=list)
    """Jobs as they were before a step of the clock, after which those that ended long ago are removed."""


Fault = Callable[[FaultTargets, random.Random], bool]
"""Strikes, and returns whether Pods were ended for it, so that a step may have been begun again."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "state", MEBIBYTES) as made:
        yield made


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    return make(tmp_path_factory.mktemp("digits"))


@pytest.fixture
def place(disk: Disk, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> FaultTargets:
    """The disk is made before the machine, so that it goes after it."""
    return FaultTargets(machine, disk, stepped_clock(disk.folder, monkeypatch))


@contextlib.contextmanager
def kept_if_it_fails(state: Path, kept: Path) -> Iterator[None]:
    """Copies the state folder, which goes with its disk."""
    try:
        yield
    except BaseException:
        shutil.copytree(state, kept, ignore_dangling_symlinks=True, ignore=_no_file)
        print(f"the state folder is kept in {kept}")
        raise


def _no_file(folder: str, names: list[str]) -> list[str]:
    """Sockets and pipes, which cannot be copied."""
    paths = {name: Path(folder, name) for name in names}
    return [name for name, path in paths.items() if not (path.is_file() or path.is_dir())]


def kill(place: FaultTargets, rng: random.Random) -> bool:
    strike(place.machine, rng.choice(VICTIMS))
    return False


def fill(place: FaultTargets, rng: random.Random) -> bool:
    place.disk.fill()
    pause(rng.uniform(*FULL))
    place.disk.empty()
    return False


def step_the_clock(place: FaultTargets, rng: random.Random) -> bool:
    """Forward or back, for every process of the machine; the clients keep the true time."""
    seconds = math.exp(rng.uniform(*map(math.log, STEP))) * rng.choice((-1, 1))
    if place.clock is not None:
        place.jobs.extend(asyncio.run(jobs_of(place.machine)))
        place.clock.step(seconds)
        print(f"the clock is {place.clock.offset:+.0f} s ahead")
    return False


def freeze(place: FaultTargets, rng: random.Random) -> bool:
    """Every process of the machine stands still, Pods included; those that begin meanwhile do not."""
    machine = place.machine
    pids = [int(line.partition(":")[0]) for line in processes_of(machine.state.path)]
    send(pids, signal.SIGSTOP)
    pause(rng.uniform(*FROZEN))
    send(pids, signal.SIGCONT)
    return False


def lose_a_file(place: FaultTargets, rng: random.Random) -> bool:
    """Lose a file while nothing but Pods runs; where `up` refuses to go on without it, in a line, it is put
    back.
    """
    machine = place.machine
    record = read_record(machine.state)
    os.kill(record.pid, signal.SIGKILL)
    asyncio.run(end_leftovers(record))
    # What was slept stands nowhere else: without it a step ahead is time, and deadlines are over.
    name = rng.choice([name for name in FILES if name != "sleeps.json" or not place.jobs])
    kept = machine.state.path.parent / "kept"
    kept.mkdir(exist_ok=True)
    lost = [path for path in (machine.state.path / name).parent.glob(f"{Path(name).name}*") if path.is_file()]
    print(f"lost: {name}")
    for path in lost:
        shutil.move(path, kept / path.name)
    try:
        machine.up()
    except SteelyardError as refusal:
        if "Traceback" in str(refusal):
            raise
        print(f"without {name}: {refusal}")
        machine.down()
        for path in lost:
            shutil.move(kept / path.name, path)
        machine.up()
        return True
    return False


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def pause(seconds: float) -> None:
    """A fault lasts: nothing is waited for."""
    signal.sigtimedwait((), seconds)


FAULTS: tuple[Fault, ...] = (kill, kill, fill, step_the_clock, step_the_clock, freeze, lose_a_file)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_the_story_ends_well_whatever_befalls_the_machine(
    place: FaultTargets, digits: Digits, tmp_path: Path, number: int
) -> None:
    print(f"\nSTEELYARD_KILL_SEED={SEED}, round {number}")
    if place.clock is None:
        print("the clock is not stepped: there is no C compiler (cc)")
    with kept_if_it_fails(place.disk.folder, tmp_path / "as it failed"):
        await tell(place, random.Random(f"{SEED} {number}"), digits)


async def tell(place: FaultTargets, rng: random.Random, digits: Digits) -> None:
    """One round: the story, the faults, and what must hold afterwards."""
    machine, begun_again = place.machine, False
    machine.up()
    with machine.client(tries=120) as client, machine.client(tries=120) as editor:
        story = Story(client, NoDisplay(), timeout=600)
        telling = asyncio.create_task(asyncio.to_thread(story.run, digits))
        editing = asyncio.create_task(asyncio.to_thread(edit_labels, editor, telling))
        try:
            for _ in range(MOST_FAULTS):
                await asyncio.wait([telling], timeout=rng.uniform(*PAUSE))
                if telling.done():
                    break
                fault = rng.choice(FAULTS)
                print(f"{fault.__name__} with {len(story.rows)} entities made, {ended(story)} ended")
                begun_again |= await asyncio.to_thread(fault, place, rng)
        finally:
            place.disk.empty()
        audited = await telling
        edits = await editing
        await asyncio.to_thread(check, client, audited, edits)
    if not begun_again:
        await check_jobs(machine, place.jobs)
