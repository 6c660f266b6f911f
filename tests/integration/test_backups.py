"""The backup of a platform on files: killed at any moment, lost, restored by the command, and compared."""

import asyncio
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from steelyard.broker.log import STATE, Log
from steelyard.broker.open import open_log
from steelyard.broker.scan import topic_pieces
from steelyard.local.engines import open_engines, outlets
from steelyard.local.files import prepare
from steelyard.local.restoring import fill_view
from steelyard.local.state import StateDir
from steelyard.services.backup.archive import Archive, Contents
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.backup.sink import run_archive_sink
from steelyard.services.backup.states import Reading, states
from steelyard.services.identity import enter
from steelyard.services.simulation.commands import aggregate, create, forget, labels, message, status
from steelyard.services.simulation.entities import make_dataset, make_evaluation
from steelyard.settings import Settings, load
from steelyard.views.fields import FILTERS
from steelyard.views.open import open_view
from steelyard.views.view import Query
from steelyard_evaluation.storage.store import Store, open_store
from tests.integration.test_platform_kills import SEED

PROGRAM = Path(__file__).with_name("backing_up.py")


def steelyard(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "steelyard.cli.main", *arguments, "--state-dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


async def shown(settings: Settings) -> dict[str, bytes]:
    view = await open_view(settings.view)
    try:
        return {stored.id: stored.json for kind in FILTERS for stored in await view.query(Query(kind))}
    finally:
        await view.close()


async def use(folder: Path) -> dict[str, bytes]:
    """A platform is used, and backed up; what its view shows."""
    prepare(StateDir(folder))
    settings = load(None, folder)
    async with open_engines(settings) as opened:
        await enter(opened.log, settings.log, outlets(opened, settings), "")
        entities = [make_dataset(f"d{number}") for number in range(30)]
        await aggregate(opened.log, *(message(create(entity)) for entity in entities))
        await aggregate(opened.log, message(create(make_evaluation())), message(labels(entities[3], a="1")))
        await aggregate(
            opened.log, message(status(entities[5], "Deleted")), message(status(entities[6], "Deleted"))
        )
        await aggregate(opened.log, message(forget(entities[5]), "reaper"))
        await fill_view(opened.log, opened.view)
        await back_up(opened.log, opened.backup)
    return await shown(settings)


async def back_up(log: Log, store: Store, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Back up all that the log has; the sink is asked to stop when it waits for more."""
    stop, archive = asyncio.Event(), Archive(store)
    # Whenever the sink asks, a second and a half have passed: it writes what it has before it rests.
    seconds = count(step=1.5)
    settings = BackupSettings(segment_seconds=1)
    sink = asyncio.ensure_future(
        run_archive_sink(log, store, settings, stop=stop, clock=clock, monotonic=lambda: next(seconds))
    )
    records = [record async for records in topic_pieces(log, STATE) for record in records]
    async with asyncio.timeout(60):
        while True:
            reached = await archive.positions(log.epoch)
            if all(record.offset < reached.get(record.partition, 0) for record in records):
                break
            await asyncio.sleep(0.05)
    stop.set()
    await sink


def lose(folder: Path) -> None:
    for name in ("log.db", "view.db"):
        for file in folder.glob(f"{name}*"):
            file.unlink()


def test_a_platform_that_lost_log_and_view_is_restored(tmp_path: Path) -> None:
    before = asyncio.run(use(tmp_path))
    refused = steelyard(tmp_path, "restore", "--yes")
    assert refused.returncode == 3
    assert refused.stderr.startswith("steelyard: the log is not empty")
    drilled = steelyard(tmp_path, "backup", "drill")
    assert drilled.returncode == 0, drilled.stdout
    assert "29 Dataset, 1 Evaluation" in drilled.stdout
    assert drilled.stdout.endswith("passed: 30 equal, 0 not\n")
    lose(tmp_path)
    tried = steelyard(tmp_path, "restore", "--dry-run")
    assert (tried.returncode, tried.stderr.strip()) == (0, "")
    assert "30 entities in the backup, 1 forgotten ones known as such" in tried.stdout
    assert not (tmp_path / "log.db").exists()
    restored = steelyard(tmp_path, "restore", "--yes")
    assert restored.returncode == 0, restored.stderr
    assert "30 entities restored" in restored.stdout
    assert asyncio.run(shown(load(None, tmp_path))) == before
    status_of = steelyard(tmp_path, "log", "status")
    assert status_of.returncode == 0, status_of.stdout
    assert steelyard(tmp_path, "restore", "--yes").returncode == 0, "a repeat does no harm"
    assert asyncio.run(shown(load(None, tmp_path))) == before


@pytest.mark.parametrize("broken", ["cut", "altered"])
def test_a_damaged_backup_is_named(tmp_path: Path, broken: str) -> None:
    asyncio.run(use(tmp_path))
    lose(tmp_path)
    segment = sorted(tmp_path.glob("backup/archive/segments/*/*/*.gz"))[0]
    content = bytearray(segment.read_bytes())
    if broken == "cut":
        content = content[:-20]
    else:
        content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    refused = steelyard(tmp_path, "restore", "--yes")
    assert refused.returncode == 3
    (line,) = refused.stderr.strip().splitlines()
    assert str(segment) in line
    assert "damaged" in line
    assert steelyard(tmp_path, "restore", "--yes", "--skip-damaged").returncode == 0


def test_a_drill_sees_what_differs(tmp_path: Path) -> None:
    asyncio.run(use(tmp_path))
    settings = load(None, tmp_path)

    async def change() -> None:
        async with open_engines(settings) as opened:
            # As after a fault of the view's: what it shows is not what was backed up.
            stored = await opened.view.find("d7")
            assert stored
            other = stored.json.replace(b"digits", b"others")
            assert other != stored.json
            with sqlite3.connect(tmp_path / "view.db") as database:
                database.execute("UPDATE dataset SET json = ? WHERE id = 'd7'", (other.decode(),))
            database.close()
            # And what happened since is no fault.
            await aggregate(
                opened.log, message(create(make_dataset("new"))), message(labels(make_dataset("d8"), b="2"))
            )
            await fill_view(opened.log, opened.view)

    asyncio.run(change())
    drilled = steelyard(tmp_path, "backup", "drill")
    assert drilled.returncode == 3, drilled.stdout
    assert "2 changed since, and are not in the backup yet" in drilled.stdout
    assert "Dataset d7: " in drilled.stdout
    assert "passed" not in drilled.stdout


def kill_in_turn(
    log: str, backup: str, partitions: int, chance: random.Random, kills: int, within: float = 2.5
) -> None:
    """Let the program write and back up, and kill it at random moments."""
    command = [sys.executable, str(PROGRAM), log, backup, str(partitions)]
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.2, within))
        process.kill()
        process.wait()
        process.stdout.close()


async def compare_archive(address: str, backup: str, partitions: int) -> Contents:
    """Back up the rest of a log; the archive must have what the log has. Returns the content of the archive."""
    log, store = await open_log(address, partitions), open_store(backup)
    try:
        await back_up(log, store)
        records = [record async for records in topic_pieces(log, STATE) for record in records]
    finally:
        await log.close()
    archive = Archive(store)
    contents = await archive.contents()
    archived = {
        key: entry.record.value
        async for part in states(archive, contents, Reading())
        for key, entry in part.items()
        if entry.record.value is not None
    }
    newest = {record.key: record.value for record in records}
    assert archived == {key: value for key, value in newest.items() if value is not None}
    return contents


def test_a_sink_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    log, backup = f"sqlite:{tmp_path / 'log.db'}", (tmp_path / "backup").as_uri()
    print(f"STEELYARD_KILL_SEED={SEED}")
    chance = random.Random(SEED)
    kill_in_turn(log, backup, 3, chance, kills=6)
    # On a busy machine the sinks may all have been killed before the first snapshot.
    for _ in range(10):
        if snapshots := asyncio.run(compare_archive(log, backup, 3)).snapshots:
            break
        kill_in_turn(log, backup, 3, chance, kills=1, within=10.0)
    assert snapshots
