"""One machine for tests: a state folder of their own, on which nothing runs any more when they end."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from steelyard.client import Client
from steelyard.client.retries import Retries
from steelyard.local.detached import UpOptions
from steelyard.local.state import Ready, StateDir, read_ready
from steelyard.local.supervisor import start_detached, stop
from steelyard_common.types import Json
from steelyard_kube.client import connect
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, ApiError, ServerTimeout, Unreachable
from steelyard_kube.resource import Resource


def processes_of(folder: Path) -> list[str]:
    """Every process whose command, environment or working folder names the folder."""
    objects = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            texts = [
                command,
                Path(f"/proc/{pid}/environ").read_bytes(),
                os.fsencode(os.readlink(f"/proc/{pid}/cwd")),
            ]
        except OSError:
            continue
        if int(pid) != os.getpid() and any(os.fsencode(folder) in text for text in texts):
            objects.append(f"{pid}: {command.replace(bytes(1), b' ').decode(errors='replace')}")
    return objects


def host_pid(number: int, *entries: str) -> int:
    """The machine's number of a process that has `number` in its Pod, known by entries of its environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        (numbers,) = (line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
        if numbers[-1] == str(number) and all(entry.encode() in environment for entry in entries):
            return int(pid)
    raise AssertionError(f"no process is number {number} where its environment has {entries}")


class Machine:
    """`steelyard up` on one folder, and the questions that tests ask of it."""

    def __init__(self, folder: Path) -> None:
        self.state = StateDir(folder)

    def up(self, *without: str) -> Ready:
        return start_detached(self.state.path, UpOptions(without=without))

    def client(self, tries: int = 6) -> Client:
        """Open a client of the running platform; patient with one that is started again."""
        ready = read_ready(self.state)
        assert ready is not None
        return Client(ready.api, ready.token, retries=Retries(tries=tries, unmet=tries))

    def down(self) -> None:
        stop(self.state.path)

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[Cluster]:
        cluster = await connect(self.state.kubeconfig)
        try:
            yield cluster
        finally:
            await cluster.close()

    async def create(self, resource: Resource, obj: Json, seconds: float = 60) -> None:
        """Create it, however often an API that is away must be asked."""
        async with asyncio.timeout(seconds), self.cluster() as cluster:
            while True:
                try:
                    await cluster.create(resource, obj)
                except AlreadyExists:
                    return  # by a try whose answer was lost
                except (Unreachable, ServerTimeout):
                    await asyncio.sleep(0.1)
                else:
                    return

    async def until(
        self, resource: Resource, name: str, holds: Callable[[Json], object], seconds: float = 60
    ) -> Json:
        """The object in `default` once something holds for it; an API that is away is waited for."""
        last: object = None
        try:
            async with asyncio.timeout(seconds), self.cluster() as cluster:
                while True:
                    try:
                        obj = await cluster.get(resource, name, "default")
                    except ApiError as error:
                        last = error
                    else:
                        if holds(obj):
                            return obj
                        last = obj.get("status")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{resource.kind} {name}: not within {seconds} s: {last}") from None


def is_true(condition: str) -> Callable[[Json], bool]:
    """Return a predicate: whether an object has the condition."""

    def holds(obj: Json) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)

    return holds


@contextmanager
def machine_at(folder: Path) -> Iterator[Machine]:
    """A machine that is not up yet, whatever the caller's settings; in the end it is down, and no process is left.

    So it is after a step that failed: nothing else would end the machine, which outlives the test's process.
    """
    with pytest.MonkeyPatch.context() as environment:
        for name in list(os.environ):
            if name.startswith("STEELYARD_") and name != "STEELYARD_KILL_SEED":
                environment.delenv(name)
        made = Machine(folder)
        try:
            yield made
        finally:
            made.down()
        assert processes_of(made.state.path) == []


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine of this test's own."""
    with machine_at(tmp_path / "state") as machine:
        yield machine
