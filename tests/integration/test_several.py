"""Several processes of each service on one folder, while any is killed or stopped: nothing is lost or doubled."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from steelyard.broker.log import EVENTS
from steelyard.broker.open import open_log
from steelyard.cli.demo.digits import Digits, make
from steelyard.local.machine import lasting_port
from steelyard_common.types import Json
from tests.integration.conftest import Machine, machine_at
from tests.integration.test_platform_kills import PAUSE, tell_with_kills
from tests.integration.test_platform_kills import strike as strike_one
from tests.platform_api.memory_platform import model

SETTINGS = """
[api]
lease_seconds = 2
"""
SERVICES = ("aggregator", "view-sink", "backup-sink", "reaper")
REPLICAS = (1, 2)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


class Processes:
    """The processes, which are started again as a supervisor would."""

    def __init__(self, folder: Path, settings: Path | None = None) -> None:
        self.state = folder / "state"
        self.settings = settings or folder / "steelyard.toml"
        if settings is None:
            self.settings.write_text(SETTINGS)
        self.ports = {replica: lasting_port() for replica in REPLICAS}
        self.log = (folder / "log").open("ab")
        self.running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}

    @property
    def names(self) -> list[tuple[str, int]]:
        return [(name, replica) for name in (*SERVICES, "api") for replica in REPLICAS]

    def start(self, name: str, replica: int) -> None:
        command = [sys.executable, "-m", "steelyard.cli.service", name, "--replica", str(replica)]
        command += ["--state-dir", str(self.state), "--settings", str(self.settings)]
        if name == "api":
            command += ["--port", str(self.ports[replica])]
        self.running[name, replica] = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def kill(self, name: str, replica: int) -> None:
        process = self.running.pop((name, replica))
        process.kill()
        process.wait()

    async def hold(self, name: str, replica: int, seconds: float) -> None:
        """Stop a process for a while; one that ends itself afterwards is started again."""
        process = self.running[name, replica]
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def revive(self) -> None:
        for (name, replica), process in list(self.running.items()):
            if process.poll() is not None:
                self.start(name, replica)

    def url(self, replica: int) -> str:
        return f"http://127.0.0.1:{self.ports[replica]}/v0"

    async def answering(self, replica: int) -> None:
        # A start takes half a minute where all of the machine is busy, and one may fail and be begun again.
        async with asyncio.timeout(300), httpx.AsyncClient() as client:
            while True:
                try:
                    if (await client.get(f"{self.url(replica)[:-3]}/health")).status_code == 200:
                        return
                except httpx.TransportError:
                    self.revive()
                await asyncio.sleep(0.05)

    @property
    def headers(self) -> dict[str, str]:
        token = json.loads((self.state / "platform.json").read_text())["token"]
        return {"Authorization": f"Bearer {token}"}


@contextmanager
def processes(folder: Path, settings: Path | None = None) -> Iterator[Processes]:
    running = Processes(folder, settings)
    with ExitStack() as stack:
        stack.callback(running.log.close)
        try:
            yield running
        finally:
            for process in running.running.values():
                process.kill()
                process.wait()


class Writer:
    """A client that creates and edits until each request is confirmed, at whichever server answers."""

    def __init__(self, running: Processes, number: int, rng: random.Random) -> None:
        self.running, self.number, self.rng = running, number, rng
        self.labels: dict[str, int] = {}
        """The label of each entity as it was last confirmed, by the entity's id."""

    async def write(self, rounds: int) -> None:
        async with httpx.AsyncClient(headers=self.running.headers, timeout=10) as client:
            for round in range(rounds):
                key = {"Idempotency-Key": f"writer-{self.number}-{round}"}
                body = {"account": "acme", **model(), "name": f"model-{self.number}-{round}"}
                entity = await self._insist(client, "POST", "/models", body, key)
                id = str(entity["id"])
                shown = await self._insist(client, "GET", f"/models/{id}")
                assert shown["name"] == body["name"], "an accepted entity is shown by every server"
                for value in (1, 2):
                    edit = {"labels": {"edited": str(value)}}
                    await self._insist(client, "PATCH", f"/models/{id}/labels", edit)
                    self.labels[id] = value

    async def _insist(
        self,
        client: httpx.AsyncClient,
        method: str,
        path: str,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        async with asyncio.timeout(120):
            while True:
                url = self.running.url(self.rng.choice(REPLICAS)) + path
                try:
                    answer = await client.request(method, url, json=body, headers=headers)
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
                    continue
                assert answer.status_code in {200, 503}, (method, path, answer.status_code, answer.text)
                if answer.status_code == 200:
                    content: Json = answer.json()
                    return content
                await asyncio.sleep(0.05)


async def faults(running: Processes, rng: random.Random, count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(rng.uniform(0.2, 1.0))
        running.revive()
        name, replica = rng.choice(running.names)
        if rng.random() < 0.5:
            running.kill(name, replica)
            await asyncio.sleep(rng.uniform(0, 0.5))
            running.start(name, replica)
        else:
            # Longer than a lease: the others take over, and it comes back among them.
            await running.hold(name, replica, rng.choice((0.5, 3.5)))
    running.revive()


@pytest.mark.parametrize(
    ("seed", "count", "rounds"),
    [(1, 8, 12), *(pytest.param(seed, 40, 60, marks=pytest.mark.soak) for seed in range(2, 7))],
)
async def test_several_of_each_lose_and_double_nothing(
    seed: int, count: int, rounds: int, tmp_path: Path
) -> None:
    with processes(tmp_path) as running:
        ids = await write_with_faults(running, seed, count, rounds)
    await check_log(f"sqlite:{tmp_path / 'state' / 'log.db'}", ids)


async def write_with_faults(running: Processes, seed: int, count: int, rounds: int) -> set[str]:
    """Write by four clients while processes are killed and held; return the ids of the entities, all of them shown."""
    rng = random.Random(seed)
    running.start("api", 1)
    await running.answering(1)
    for name in running.names:
        if name not in running.running:
            running.start(*name)
    await running.answering(2)
    writers = [Writer(running, number, random.Random(seed * 100 + number)) for number in range(4)]
    async with asyncio.TaskGroup() as group:
        group.create_task(faults(running, rng, count))
        for writer in writers:
            group.create_task(writer.write(rounds))
    expected = {id: str(value) for writer in writers for id, value in writer.labels.items()}
    assert len(expected) == 4 * rounds, "each key made an entity of its own"
    for replica in REPLICAS:
        await running.answering(replica)
        shown = {entity["id"]: entity["labels"]["edited"] for entity in await models_at(running, replica)}
        assert shown == expected
    return set(expected)


async def models_at(running: Processes, replica: int) -> list[Json]:
    """Return what one server lists; the services behind it may have to start first."""
    async with (
        asyncio.timeout(120),
        httpx.AsyncClient(headers=running.headers, timeout=60) as client,
    ):
        while True:
            answer = await client.get(f"{running.url(replica)}/models", params={"limit": "10000"})
            assert answer.status_code in {200, 503}, answer.text
            if answer.status_code == 200:
                models: list[Json] = answer.json()
                return models
            await asyncio.sleep(0.05)


async def check_log(url: str, ids: set[str]) -> None:
    """Check that the log has commands of these entities alone."""
    log = await open_log(url)
    try:
        keys = set()
        for partition in range(log.partitions):
            start = 0
            while records := await log.read(EVENTS, partition, start):
                keys |= {record.key for record in records}
                start = records[-1].offset + 1
        assert keys == ids
    finally:
        await log.close()


BESIDE = ("aggregator", "orchestrator", "informer", "view-sink", "reaper", "api")


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.soak)])
async def test_the_story_with_two_of_each_service(kills: int, tmp_path: Path) -> None:
    digits = make(tmp_path / "digits")
    with machine_at(tmp_path / "state") as machine:
        machine.up()
        with processes(tmp_path, tmp_path / "none.toml") as beside:
            beside.settings.touch()
            await tell_with_two_of_each(machine, beside, digits, kills, random.Random(kills))


async def tell_with_two_of_each(
    machine: Machine,
    beside: Processes,
    digits: Digits,
    kills: int,
    rng: random.Random,
    pause: tuple[float, float] = PAUSE,
) -> None:
    """Run the story with a second process of each service in addition to those of `up`.

    Killed are these and the platform's, in turn, with a pause in seconds between its bounds before each.
    """

    def strike(machine: Machine, victim: str) -> None:
        if victim == "platform":
            strike_one(machine, victim)
        else:
            name = rng.choice(BESIDE)
            beside.kill(name, 2)
            beside.start(name, 2)
        beside.revive()

    for name in BESIDE:
        beside.start(name, 2)
    await beside.answering(2)
    await tell_with_kills(machine, digits, kills, cycle(("platform", "beside")), rng, strike, pause)


def test_only_services_have_numbers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "steelyard.cli.main", "service", "kubernetes", "--replica", "2"]
    done = subprocess.run(
        [*command, "--state-dir", str(tmp_path)], capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.returncode == 2
    assert "--replica 2: only a service of the platform may run several times" in done.stderr
