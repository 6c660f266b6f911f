"""kill -9 amid writes: acknowledged writes are there, no version is given out twice, old watches get the error by
which they list, and an informer ends with what there is.
"""

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from steelyard.local.machine import lasting_port
from steelyard_common.types import Json
from steelyard_kube.client import connect
from steelyard_kube.informer import Informer, Pace
from steelyard_kube.resource import CONFIG_MAPS
from tests.kubernetes_api.api import Api, config_map

CORE = "/api/v1/namespaces/default"
RESTARTS = 60.0  # seconds until an informer has caught up


@asynccontextmanager
async def running(folder: Path, port: int, statement: int = 0) -> AsyncIterator[subprocess.Popen[str]]:
    """A server; with a number, it kills itself before that statement."""
    arguments = [str(folder), str(port), str(statement)]
    command = [sys.executable, "-m", "tests.kubernetes_api.crashing", *arguments]
    process = await asyncio.to_thread(subprocess.Popen, command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 30) == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


class Writers:
    """Clients that create, change and delete until the server is gone; they remember the acknowledged writes.

    `goal_reached` is set once `goal` writes were acknowledged.
    """

    def __init__(self, api: Api, rng: random.Random, round_number: int) -> None:
        self.api, self.rng, self.round = api, rng, round_number
        self.acknowledged: dict[str, int | None] = {}  # name -> version, None once deleted
        self.unsure: set[str] = set()  # asked for, not answered
        self.versions: list[int] = []
        self.goal = rng.randrange(50, 400)
        self.goal_reached = asyncio.Event()

    async def write(self, writer: int) -> None:
        try:
            for index in range(10_000):
                await self._step(f"r{self.round}-{writer}-{index % 5}", index)
        except (aiohttp.ClientError, ConnectionError):
            return

    async def _step(self, name: str, index: int) -> None:
        path = f"{CORE}/configmaps/{name}"
        self.unsure.add(name)
        if self.acknowledged.get(name) is None:
            answer = await self.api.post(f"{CORE}/configmaps", config_map(name, {"n": str(index)}))
        elif self.rng.random() < 0.3:
            answer = await self.api.delete(path)
            self.acknowledged[name] = None
            self.unsure.discard(name)
            return
        else:
            answer = await self.api.merge(path, {"data": {"n": str(index)}})
        version = int(answer.ok().version)
        self.versions.append(version)
        if len(self.versions) >= self.goal:
            self.goal_reached.set()
        self.acknowledged[name] = version
        self.unsure.discard(name)


async def follow(api: Api, start: str, seen: list[Json]) -> None:
    """A watch until its server is gone."""
    try:
        async with api.watch(f"{CORE}/configmaps?watch=1&resourceVersion={start}") as events:
            while True:
                seen.append(await events.next(60))
    except (aiohttp.ClientError, ConnectionError, AssertionError):
        return


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 2), *(pytest.param(seed, 50, marks=pytest.mark.soak) for seed in range(2, 8))]
)
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, seed: int, rounds: int) -> None:
    rng, port = random.Random(seed), lasting_port()
    versions: dict[int, str] = {}  # every version ever sent, and what it was
    old: list[str] = []
    for number in range(rounds):
        # By turns from outside, as soon as enough was acknowledged, and between two statements of a transaction.
        statement = rng.randrange(1, 600) if number % 2 else 0
        async with running(tmp_path, port, statement) as process:
            api = Api(tmp_path / "kubeconfig")
            for version in old:
                await _is_too_old(api, version)
            start = (await api.get(f"{CORE}/configmaps")).version
            seen: list[Json] = []
            watching = asyncio.create_task(follow(api, start, seen))
            writers = Writers(api, rng, number)
            writing = [asyncio.create_task(writers.write(writer)) for writer in range(8)]
            if statement:
                await asyncio.wait_for(asyncio.to_thread(process.wait), 60)
            else:
                await asyncio.wait_for(writers.goal_reached.wait(), 60)
                process.kill()
            await asyncio.gather(watching, *writing)
            await api.close()
        _never_twice(versions, seen)
        async with running(tmp_path, port):
            api = Api(tmp_path / "kubeconfig")
            listed = (await api.get(f"{CORE}/configmaps")).ok(200).json
            await api.close()
        _nothing_lost(writers, listed, seen)
        last = seen[-1]["object"]["metadata"]["resourceVersion"] if seen else start
        old = [start, str(max(int(last), *writers.versions, 1))]


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=pytest.mark.soak)])
async def test_an_informer_goes_on_over_kills(tmp_path: Path, rounds: int) -> None:
    rng, port = random.Random(5), lasting_port()
    async with running(tmp_path, port):
        pass
    cluster = await connect(tmp_path / "kubeconfig")
    changed, pace = asyncio.Event(), Pace(backoff=0.01, backoff_cap=0.1)
    informer = Informer(
        cluster, CONFIG_MAPS, namespace="default", pace=pace, on_change=lambda old, new: changed.set()
    )
    following = asyncio.create_task(informer.run())
    for number in range(rounds):
        async with running(tmp_path, port, rng.randrange(100, 600)) as process:
            api = Api(tmp_path / "kubeconfig")
            writers = Writers(api, rng, number)
            await asyncio.gather(*(writers.write(writer) for writer in range(8)))
            await asyncio.to_thread(process.wait)
            await api.close()
    async with running(tmp_path, port):
        listed = (await cluster.list(CONFIG_MAPS, "default")).items
        wanted = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in listed}
        async with asyncio.timeout(RESTARTS):
            while _known(informer) != wanted:
                changed.clear()
                await changed.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await cluster.close()


def _known(informer: Informer) -> dict[str, str]:
    return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in informer.items()}


async def _is_too_old(api: Api, version: str) -> None:
    async with api.watch(f"{CORE}/configmaps?watch=1&resourceVersion={version}") as events:
        event = await events.next()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def _never_twice(versions: dict[int, str], seen: list[Json]) -> None:
    for event in seen:
        metadata = event["object"]["metadata"]
        version = int(metadata["resourceVersion"])
        assert version not in versions, f"{version} is {versions[version]} and {metadata['name']}"
        versions[version] = metadata["name"]


def _nothing_lost(writers: Writers, listed: Json, seen: list[Json]) -> None:
    """Lists after the restart against answers and events before it."""
    there = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listed["items"]}
    for name, version in writers.acknowledged.items():
        if name in writers.unsure:
            assert version is None or there.get(name, version) >= version
        elif version is None:
            assert name not in there
        else:
            assert there[name] == version
    last: dict[str, Json] = {event["object"]["metadata"]["name"]: event for event in seen}
    for name, event in last.items():
        version = int(event["object"]["metadata"]["resourceVersion"])
        if name in writers.unsure:
            continue
        # What a watcher got is no less durable than what a writer got.
        if event["type"] != "DELETED" and writers.acknowledged[name] is not None:
            assert there[name] >= version
    assert int(listed["metadata"]["resourceVersion"]) > max(writers.versions, default=0)
