"""Logs of runners are kept in storage: every line once, over restarts of runners and of informers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import orjson
import pytest

from steelyard.broker.in_memory import MemoryLog
from steelyard.services.informer.runner_logs import PIECE_BYTES, PodLog, RunnerLogs, find_place
from steelyard.services.simulation.commands import aggregate, create, message
from steelyard.services.simulation.entities import ACCOUNT, make_evaluation, make_model, make_session
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import StorageError, Store, open_store
from steelyard_kube.cluster import LogLine
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS
from steelyard_schema.names import account_namespace

ID = "0" * 31 + "1"
FOLDER = f"inferencesessions/{ID}/.dyff/logs/"
names = count()


def make_pod(name: str = f"inferencesession-{ID}-5d4f-abc", **labels: str) -> Json:
    known = {"steelyard/entity": ID, "app.kubernetes.io/component": "session"}
    return {
        "metadata": {"name": name, "namespace": account_namespace(ACCOUNT), "labels": known | labels},
        "spec": {},
    }


@pytest.fixture
def store() -> Store:
    return open_store(f"memory://runner-logs-{next(names)}")


@asynccontextmanager
async def following(cluster: MemoryCluster, store: Store) -> AsyncIterator[None]:
    log = MemoryLog()
    await aggregate(log, message(create(make_session(ID))))
    task = asyncio.create_task(RunnerLogs(cluster, store, log, piece_seconds=0.01).work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def kept(store: Store) -> list[str]:
    keys = sorted([info.key async for info in store.list(FOLDER)])
    lines = [line for key in keys for line in (await store.get(key)).splitlines()]
    return [orjson.loads(line)["message"] for line in lines]


async def until_kept(store: Store, lines: list[str]) -> None:
    async with asyncio.timeout(60):
        while await kept(store) != lines:  # noqa: ASYNC110 - the store has no event to wait for
            await asyncio.sleep(0.01)


def line(number: int) -> LogLine:
    return LogLine(f"2026-01-01T00:00:{number:02}.000000000Z", f"line {number}")


async def test_the_log_of_a_runner_is_kept_once_whoever_reads_it(store: Store) -> None:
    cluster = MemoryCluster()
    uid = (await cluster.create(PODS, make_pod()))["metadata"]["uid"]
    cluster.written[uid] = [line(1), line(2)]
    async with following(cluster, store):
        await until_kept(store, ["line 1", "line 2"])
    cluster.written[uid].append(line(3))
    # Another leader reads the second of the newest line again, as the API gives it.
    async with following(cluster, store):
        await until_kept(store, ["line 1", "line 2", "line 3"])
        assert {key.split("/")[4] for key in [info.key async for info in store.list(FOLDER)]} == {uid}


SESSION, EVALUATION = make_session(ID).dump(), make_evaluation(ID).dump()
FOREIGN = make_pod()
FOREIGN["metadata"]["namespace"] = "acct-mallory"


@pytest.mark.parametrize(
    ("pod", "entity", "place"),
    [
        (make_pod(), SESSION, FOLDER),
        (
            make_pod(f"evaluation-{ID}-session-5d4f-abc"),
            EVALUATION,
            f"evaluations/{ID}/.dyff/logs/",
        ),
        (make_pod("my-own-session-5d4f-abc"), SESSION, None),
        (make_pod(), EVALUATION, None),
        (make_pod(f"model-{ID}-5d4f-abc"), make_model(ID).dump(), None),
        (FOREIGN, SESSION, None),
    ],
    ids=[
        "a session",
        "an evaluation's own",
        "one that kubectl made",
        "another kind's name",
        "a kind without runners",
        "one in another account's namespace",
    ],
)
def test_the_place_of_a_log_is_that_of_its_entity(pod: Json, entity: Json, place: str | None) -> None:
    pod["metadata"]["uid"] = "u"
    assert find_place(pod, entity) == (None if place is None else f"{place}u/")


async def test_a_pod_in_another_accounts_namespace_writes_into_no_log(store: Store) -> None:
    cluster = MemoryCluster()
    forged = (await cluster.create(PODS, FOREIGN))["metadata"]["uid"]
    cluster.written[forged] = [line(1)]
    async with following(cluster, store):
        uid = (await cluster.create(PODS, make_pod()))["metadata"]["uid"]
        cluster.written[uid] = [line(2)]
        await until_kept(store, ["line 2"])


async def test_lines_that_storage_did_not_take_are_written_later(store: Store) -> None:
    class Refusing:
        refused = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def create(self, key: str, data: bytes) -> None:
            if self.refused == 0:
                self.refused += 1
                raise OSError("away")
            await store.create(key, data)

    async def lines() -> AsyncIterator[LogLine]:
        yield line(1)

    log: Any = PodLog(Refusing(), f"{FOLDER}u/")
    await log.begin()
    with pytest.raises(OSError, match="away"):
        await log.take(lines(), 60)
    await log.write()
    assert await kept(store) == ["line 1"]


async def test_lines_that_storage_did_not_take_do_not_wait_for_the_next_line(store: Store) -> None:
    class Refusing:
        refused = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def create(self, key: str, data: bytes) -> None:
            if self.refused < 2:
                self.refused += 1
                raise StorageError("away")
            await store.create(key, data)

    async def lines() -> AsyncIterator[LogLine]:
        yield line(1)
        await asyncio.Event().wait()

    log: Any = PodLog(Refusing(), f"{FOLDER}u/")
    await log.begin()
    taking = asyncio.create_task(log.take(lines(), 0.01))
    try:
        await until_kept(store, ["line 1"])
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)


async def test_two_leaders_at_once_lose_no_line_and_keep_none_twice(store: Store) -> None:
    async def lines(*numbers: int) -> AsyncIterator[LogLine]:
        for number in numbers:
            yield line(number)

    old, new = PodLog(store, f"{FOLDER}u/"), PodLog(store, f"{FOLDER}u/")
    await old.begin()
    await new.begin()
    await new.take(lines(1, 2, 3), 60)
    # The old leader does not know yet that it is none any more.
    await old.take(lines(1, 2), 60)
    await old.take(lines(3, 4), 60)
    await new.take(lines(4, 5), 60)
    assert await kept(store) == [f"line {number}" for number in range(1, 6)]


async def test_a_piece_is_written_early_when_many_lines_come_at_once(store: Store) -> None:
    text = "x" * (PIECE_BYTES // 4)

    async def lines() -> AsyncIterator[LogLine]:
        for number in range(20):
            yield LogLine(line(number).time, text)

    log = PodLog(store, f"{FOLDER}u/")
    await log.begin()
    await log.take(lines(), 60)
    sizes = [info.size async for info in store.list(FOLDER)]
    assert len(sizes) == 5
    assert max(sizes) < 2 * PIECE_BYTES
    assert await kept(store) == [text] * 20


async def test_a_log_that_is_kept_no_further_is_reported(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = MemoryCluster()
    uid = (await cluster.create(PODS, make_pod()))["metadata"]["uid"]
    await store.put(f"{FOLDER}{uid}/runner-000001", b"no JSON\n")

    async def reported() -> None:
        while uid not in caplog.text:  # noqa: ASYNC110 - a log has no event to wait for
            await asyncio.sleep(0.01)

    async with following(cluster, store), asyncio.timeout(60):
        await reported()
    assert [record.levelname for record in caplog.records if uid in record.getMessage()] == ["ERROR"]
    assert "JSONDecodeError" in caplog.text
