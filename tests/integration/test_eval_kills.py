"""`steelyard eval run` killed with SIGKILL: no row is lost, none is doubled, and hardly a call is paid twice."""

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.integration.eval_command import IN_FLIGHT, PART, Endpoint, RunFolder, ended, endpoint, kill
from tests.source import PYTHONPATH, ROOT

DRIVER = ("-m", "tests.integration.killing_eval")
DRIVEN = {"PYTHONPATH": f"{ROOT}:{PYTHONPATH}"}
TWICE = IN_FLIGHT + PART
"""Calls that one kill may cost: those in flight, and one part that was not durable yet."""


async def kill_somewhere(place: RunFolder, server: Endpoint, rng: random.Random, most: int) -> str:
    """Start the command, and kill it once it has made up to `most` more calls, or in one of its later steps."""
    process = await place.start(server)
    assert process.stdout is not None
    watching = asyncio.create_task(_see(process.stdout, rng.choice(["verifying", "scoring"])))
    calls = asyncio.create_task(server.until_asked(server.calls + rng.randrange(most)))
    try:
        await asyncio.wait([watching, calls], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(rng.random() / (20 if calls.done() else 5))
    finally:
        watching.cancel()
        calls.cancel()
        await asyncio.gather(watching, calls, return_exceptions=True)
    await kill(process)
    return f"{server.calls} calls" if not watching.done() or watching.cancelled() else "a later step"


async def _see(out: asyncio.StreamReader, step: str) -> None:
    """Wait until the step begins, or the command ends."""
    while line := await out.readline():
        if f'"step": "{step}"'.encode() in line:
            return


@pytest.mark.parametrize(
    ("kills", "rows", "moves"),
    [
        pytest.param(5, 4_000, False, id="5 kills"),
        pytest.param(2, 2_500, True, id="2 kills, each time another machine"),
        pytest.param(50, 40_000, False, id="50 kills", marks=pytest.mark.soak),
        pytest.param(50, 40_000, True, id="50 kills, each time another machine", marks=pytest.mark.soak),
    ],
)
async def test_killed_at_random_moments(tmp_path: Path, kills: int, rows: int, moves: bool) -> None:
    seed = int(os.environ.get("STEELYARD_SEED", "0")) or random.randrange(1 << 30)
    rng, place = random.Random(seed), RunFolder(tmp_path / "0", rows).write()
    moments_seen = []
    async with endpoint(seconds=0.01) as server:
        for number in range(1, kills + 1):
            moments_seen.append(await kill_somewhere(place, server, rng, 3 * rows // kills))
            if moves:
                place = await asyncio.to_thread(moved, place, tmp_path / str(number))
        last = await place.go(server)
        calls = server.calls
        assert (await place.go(server)).status == 0
    print(f"seed {seed}: killed at {', '.join(moments_seen)}; {calls - rows} calls twice")
    assert (last.status, last.said) == (0, "")
    assert calls - rows <= kills * TWICE
    assert server.calls == calls, "a run that is done asks nothing"
    place.check()


def moved(place: RunFolder, folder: Path) -> RunFolder:
    """Copy the durable files, as another machine mounts it elsewhere; its scratch folder is empty."""
    there = RunFolder(folder, place.rows)
    folder.mkdir()
    if place.run.exists():
        shutil.copytree(place.run, there.run)
    shutil.copy(place.prompts, there.prompts)
    shutil.rmtree(place.folder)
    return there


FEW = 30
WHOLE = "/run/"
"""Part of every path in a run's folder."""


async def moments(tmp_path: Path) -> list[str]:
    """Every moment at which an undisturbed run could be killed, in order."""
    place, counted = RunFolder(tmp_path / "counted", FEW).write(), tmp_path / "moments"
    async with endpoint(seconds=0) as server:
        process = await place.start(server, under=(*DRIVER, "0", WHOLE, str(counted)), **DRIVEN)
        assert (await ended(process)).status == 0
    place.check()
    return counted.read_text().splitlines()


async def kill_at(tmp_path: Path, at: int, wanted: str) -> int:
    """Killed at that moment, and gone on with: how many calls were paid twice."""
    place = RunFolder(tmp_path / str(at), FEW).write()
    async with endpoint(seconds=0) as server:
        under = (*DRIVER, str(at), wanted, "unused")
        died = await ended(await place.start(server, under=under, **DRIVEN))
        assert died.status == -9, f"no such moment: {died}"
        paid = server.calls
        assert (await place.go(server)).status == 0
    assert server.calls - FEW <= min(paid, TWICE)
    place.check()
    return server.calls - FEW


@pytest.mark.parametrize(
    ("at", "wanted", "twice"),
    [(1, "/parts/", FEW), (2, "/parts/", 0), (1, "manifest.json", 0)],
    ids=["before a part is there", "right after it", "before the manifest"],
)
async def test_killed_between_a_write_and_its_appearance(
    tmp_path: Path, at: int, wanted: str, twice: int
) -> None:
    assert await kill_at(tmp_path, at, wanted) == twice


@pytest.mark.soak
async def test_killed_at_every_moment(tmp_path: Path) -> None:
    points = await moments(tmp_path)
    assert len(points) > 20
    for at in range(1, len(points) + 1):
        await kill_at(tmp_path, at, WHOLE)
