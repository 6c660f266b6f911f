"""The log in a file among processes: they are killed, stopped and start at once, and the power fails."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from steelyard.broker.log import EVENTS, OUTCOMES, PARTITIONS, STATE, Fenced, Log, LogError, Message
from steelyard.broker.open import open_log
from steelyard.broker.sqlite.records import MIGRATIONS
from steelyard.engines.processes import may_live, own_process
from steelyard.sqlite import Database
from steelyard.testing.engines.log import everything, message

WORKER = """
import asyncio, sys
from steelyard.broker.log import EVENTS, OUTCOMES, STATE, Fenced, Message
from steelyard.broker.open import open_log

async def main(url, partitions, pause, most):
    log = await open_log(url, int(partitions))
    inbox = await log.inbox("group", EVENTS)
    begun = 0
    while begun != int(most):
        batch = await inbox.batch(limit=3, wait=0.2)
        counts = {}
        for record in batch.records:
            before = await log.latest(STATE, record.key)
            counts[record.key] = counts.get(record.key, int(before.value) if before else 0) + 1
        if batch.records:
            begun += 1
            print("begins", flush=True)
            await asyncio.sleep(float(pause))
            try:
                await inbox.transact(batch, [
                    *(Message(STATE, key, str(n).encode()) for key, n in counts.items()),
                    *(Message(OUTCOMES, record.key, record.value) for record in batch.records),
                ])
            except Fenced:
                pass  # another member got the same records
    await asyncio.sleep(3600)

asyncio.run(main(*sys.argv[1:]))
"""
"""Counts the events of each key, and says each again."""


def start_worker(
    url: str, pause: float = 0, partitions: int = PARTITIONS, most: int = -1
) -> "subprocess.Popen[str]":
    """Start a member that pauses between reading and writing, and rests after `most` batches; -1 means never."""
    command = [sys.executable, "-c", WORKER, url, str(partitions), str(pause), str(most)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def work_until_killed(url: str, batches: int, pause: float, partitions: int = PARTITIONS) -> None:
    """Kill a member in the middle of its last transaction, or shortly before or after it.

    It works off no more than these batches, however late the kill comes: others are to be left for the next member.
    """
    with start_worker(url, partitions=partitions, most=batches) as process:
        assert process.stdout is not None
        for _ in range(batches):
            process.stdout.readline()
        signal.sigtimedwait([], pause)
        process.kill()


@asynccontextmanager
async def working(
    url: str, pause: float = 0, partitions: int = PARTITIONS
) -> AsyncIterator["subprocess.Popen[str]"]:
    process = start_worker(url, pause, partitions)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def until_said(log: Log, number: int, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while len(await everything(log, OUTCOMES)) < number:
            await log.wait_for_change(log.version(), 1)


async def check(log: Log, keys: int, each_key: int) -> None:
    """Every event was counted once and said once, in its key's order."""
    assert {record.key: record.value for record in await everything(log, STATE)} == {
        f"k{n}": str(each_key).encode() for n in range(keys)
    }
    said = await everything(log, OUTCOMES)
    for key in {record.key for record in said}:
        numbers = [int(record.value or b"") for record in said if record.key == key]
        assert numbers == sorted(numbers)
    assert set(Counter(record.value for record in said).values()) == {1}


async def test_members_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    path, random = tmp_path / "log.db", Random(5)
    log = await open_log(f"sqlite:{path}")
    await log.publish([message(f"k{number % 10}", str(number)) for number in range(60)])
    for batches in (1, 3, 2, 2):
        await asyncio.to_thread(work_until_killed, f"sqlite:{path}", batches, random.random() * 0.003)
    async with working(f"sqlite:{path}"):  # takes over at once from those that were killed
        await until_said(log, 60)
    await check(log, 10, 6)
    await log.close()


async def test_two_members_share_the_work_while_others_publish(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = await open_log(f"sqlite:{path}")
    async with working(f"sqlite:{path}"), working(f"sqlite:{path}"):
        await asyncio.gather(
            *(log.publish([message(f"k{n % 20}", str(n + m)) for m in (0, 20)]) for n in range(20))
        )
        await until_said(log, 40)
    await check(log, 20, 2)
    await log.close()


async def end_leases(log: Log) -> None:
    """End every member's lease, as its 30 seconds would."""
    await log.file.write(  # type: ignore[attr-defined]
        lambda connection: connection.execute("UPDATE members SET renewed = renewed - 31")
    )


async def test_one_who_stalls_past_its_lease_is_succeeded_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = await open_log(f"sqlite:{path}")
    stalled = await log.inbox("group", EVENTS)
    await log.publish([message(f"k{n}", str(n)) for n in range(20)])
    batch = await stalled.batch(wait=0)
    assert len(batch.records) == 20
    await end_leases(log)
    other = await log.inbox("group", EVENTS)
    await other.transact(await other.batch(wait=0), [message("k1", "other", STATE)])
    with pytest.raises(Fenced, match=r"workflows\.events.*another"):
        await stalled.transact(batch, [message("k1", "late", STATE), message("k2", "late", OUTCOMES)])
    assert [record.value for record in await everything(log, STATE)] == [b"other"]
    assert await everything(log, OUTCOMES) == []
    assert (await stalled.batch(wait=0)).records == [], "it is a member again, and all is done"
    await log.close()


async def test_a_process_that_was_stopped_in_the_middle_is_fenced(tmp_path: Path) -> None:
    """The lease is ended by hand, as 30 seconds would end it; awake again, the process works on without
    doubling anything.
    """
    path = tmp_path / "log.db"
    log = await open_log(f"sqlite:{path}")
    await log.publish([message(f"k{number % 10}", str(number)) for number in range(60)])
    async with working(f"sqlite:{path}", 0.2) as stalled:
        assert stalled.stdout is not None
        await asyncio.to_thread(stalled.stdout.readline)
        os.kill(stalled.pid, signal.SIGSTOP)
        await log.publish([message(f"k{number % 10}", str(number)) for number in range(60, 80)])
        await end_leases(log)
        async with working(f"sqlite:{path}"):
            await until_said(log, 60)
            os.kill(stalled.pid, signal.SIGCONT)
            await until_said(log, 80)
    await check(log, 10, 8)
    await log.close()


def left_by_a_power_loss(path: Path, folder: Path, length: int) -> Path:
    """The file, with so much of its WAL."""
    folder.mkdir()
    shutil.copy(path, folder)
    (folder / f"{path.name}-wal").write_bytes(Path(f"{path}-wal").read_bytes()[:length])
    return folder / path.name


async def test_what_was_confirmed_survives_a_power_loss(tmp_path: Path) -> None:
    """The power fails at any byte of the WAL: confirmed transactions are there, others are whole or absent."""
    path, random = tmp_path / "log.db", Random(7)
    log = await open_log(f"sqlite:{path}")
    confirmed = []
    for number in range(30):
        await log.publish([message("a", str(number)), message("a", str(number), STATE)])
        confirmed.append(os.stat(f"{path}-wal").st_size)
    for loss in range(15):
        length = random.randrange(confirmed[0], confirmed[-1] + 1)
        copy = left_by_a_power_loss(path, tmp_path / str(loss), length)
        left = await open_log(f"sqlite:{copy}")
        events = [int(record.value or b"") for record in await everything(left, EVENTS)]
        assert events == list(range(len(events)))
        assert len(events) >= sum(size <= length for size in confirmed)
        (state,) = await everything(left, STATE)
        assert int(state.value or b"") == events[-1], "half a transaction is there"
        await left.publish([message("a", "goes on")])
        await left.close()
    await log.close()


OPENER = """
import asyncio, sys
from steelyard.broker.log import EVENTS, Message
from steelyard.broker.open import open_log

async def main(path):
    log = await open_log(f"sqlite:{path}")
    for number in range(20):
        await log.publish([Message(EVENTS, sys.argv[2], str(number).encode())])
    await log.close()

asyncio.run(main(sys.argv[1]))
"""


async def test_processes_may_make_a_log_at_once(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log.db"
    started = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", OPENER, str(path), str(n))
        for n in range(3)
    ]
    assert [await process.wait() for process in started] == [0, 0, 0]
    log = await open_log(f"sqlite:{path}")
    events = await everything(log, EVENTS)
    for key in "012":
        assert [int(record.value or b"") for record in events if record.key == key] == list(range(20))
    await log.close()


async def test_a_log_has_an_id_of_its_own_and_an_epoch_that_grows(tmp_path: Path) -> None:
    logs = [await open_log(f"sqlite:{tmp_path / name}") for name in ("a", "b")]
    assert [log.epoch for log in logs] == [1, 1]
    assert logs[0].id != logs[1].id
    await logs[0].begin_epoch(7)
    with pytest.raises(LogError, match="has epoch 7; 7 is not a later one"):
        await logs[0].begin_epoch(7)
    for log in logs:
        await log.close()
    again = await open_log(f"sqlite:{tmp_path / 'a'}")
    assert (again.id, again.epoch) == (logs[0].id, 7)
    await again.close()


async def test_a_log_of_a_version_without_ids_gets_one(tmp_path: Path) -> None:
    early = await Database.open(tmp_path / "log.db", MIGRATIONS[:1])
    insert = "INSERT INTO log (epoch, partitions, next) VALUES (1760000000000, 8, 5)"
    await early.write(lambda connection: connection.execute(insert).rowcount)
    await early.close()
    logs = [await open_log(f"sqlite:{tmp_path / 'log.db'}") for _ in range(2)]
    assert logs[0].id == logs[1].id != ""
    assert {log.epoch for log in logs} == {1760000000000}
    for log in logs:
        await log.close()


def test_a_process_is_known_by_its_start() -> None:
    mine = own_process()
    assert may_live(mine)
    assert not may_live(f"{mine}0"), "the pid is another process's now"
    assert may_live("elsewhere-1-1"), "of another machine's processes only the lease tells"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        theirs = mine.replace(f"-{os.getpid()}-", f"-{child.pid}-")
        assert not may_live(theirs)
        child.kill()


async def test_more_expires_than_one_commit_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.broker.sqlite.log.EXPIRE_CHUNK", 7)
    log = await open_log(f"sqlite:{tmp_path / 'log.db'}")
    written = await log.publish([message(f"k{n}") for n in range(100)])
    await log.publish([Message(STATE, f"k{n}", None) for n in range(50)])
    late = written[0].written.replace(year=written[0].written.year + 1)
    assert await log.expire(EVENTS, late) == 100
    assert await log.expire(STATE, late) == 50
    assert await everything(log, EVENTS) == await everything(log, STATE) == []
    await log.close()
