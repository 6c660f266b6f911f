"""Jobs that were made, finished, deleted and forgotten leave nothing in the process, in whichever container."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from steelyard_common.types import Json
from steelyard_kube.events import EventRecorder
from steelyard_kube.objects import true_condition
from steelyard_kube.resource import JOBS
from steelyard_local_kubernetes.apiserver import pki
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.direct import direct_cluster
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, make_parts
from steelyard_local_kubernetes.controllers.caches import BUILT_IN, Caches
from steelyard_local_kubernetes.controllers.run import run_controllers
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.kubelet import run_kubelet
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import IMAGE, make_config
from steelyard_local_kubernetes.names.run import run_names
from tests.kubelet.conftest import processes_of
from tests.kubelet.contents import contents

CROWD = 24
LEAST = CROWD // 2
"""Growth that chance does not make, and that an entry left by each Job or Pod does."""
DAY = 86_400
KEPT_UNTIL_DELETED = {
    "Bucket.namespaces[]",
    "CachedObjects._objects",
    "EndedPods._versions",
    "EventRecorder._written",
    "Expiry._written",
    "Ring._changes",
    "Store._by_uid",
    "WorkQueue._later",
}
"""Containers that are known to grow: without one of them, not all is looked at."""
USED_AGAIN = {"HostsFile._hidden"}
"""Free places, which take what comes next."""


def make_job(name: str) -> Json:
    container = {"name": "main", "image": IMAGE, "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"job": name}},
        "spec": {"template": template, "activeDeadlineSeconds": DAY},
    }


async def until_nothing(left: Callable[[], Awaitable[object]]) -> None:
    """Wait until nothing is left; unfinished work of a busy machine does not count as a leak."""
    rest: object = None
    try:
        async with asyncio.timeout(120):
            while rest := await left():  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"there is still {rest}") from None


@dataclass
class Server:
    """API server, controllers, kubelet and names in one loop, and a clock that may be put forward."""

    config: KubeletConfig
    ahead: timedelta = field(default_factory=timedelta)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    @asynccontextmanager
    async def run(self, folder: Path) -> AsyncIterator[None]:
        config = ApiServerConfig(folder / "kubernetes.db", folder / "pki", {}, self.config.pods)
        pki.server_context(config.pki, config.host, self.now())  # whose authority Pods get
        self.parts = await make_parts(config, Clock(self.now))
        self.cluster = direct_cluster(self.parts.core, administrator("tester"))
        stop, caches = asyncio.Event(), Caches(self.cluster, resources=BUILT_IN)
        try:
            async with asyncio.TaskGroup() as running:
                lifecycle = running.create_task(self.parts.lifecycle.run())
                running.create_task(caches.run(stop))
                running.create_task(run_names(caches, self.config.hosts, stop=stop))
                running.create_task(run_controllers(self.cluster, caches, stop=stop, now=self.now))
                running.create_task(run_kubelet(self.cluster, self.config, stop=stop, now=self.now))
                try:
                    await caches.wait_for_sync()
                    yield
                finally:
                    stop.set()
                    lifecycle.cancel()
        finally:
            await self.cluster.close()
            self.parts.store.close()

    def stored(self, kind: str) -> int:
        return self.parts.store.bucket(kind).size

    async def crowd(self, name: str) -> None:
        """Make Jobs, and wait until they are Complete and reported."""
        names = [f"{name}-{number:03d}" for number in range(CROWD)]
        await asyncio.gather(*(self.cluster.create(JOBS, make_job(job)) for job in names))

        async def incomplete() -> object:
            jobs = (await self.cluster.list(JOBS)).items
            return [job["metadata"]["name"] for job in jobs if not true_condition(job, "Complete")]

        await until_nothing(incomplete)

    async def delete_all(self) -> None:
        for job in (await self.cluster.list(JOBS)).items:
            await self.cluster.delete(JOBS, job["metadata"]["name"], "default")

        async def pods() -> object:
            return self.stored("pods") or [path.name for path in self.config.pods.iterdir() if path.is_dir()]

        await until_nothing(pods)

    async def forget(self) -> None:
        """Let the time pass after which changes and events are forgotten."""
        self.ahead += timedelta(days=1)
        for recorder in [obj for obj in gc.get_objects() if isinstance(obj, EventRecorder)]:
            await recorder.flush()
            recorder.forget()
        await self.parts.expiry.expire()
        self.parts.store.age(0)

    def contents(self) -> Counter[str]:
        gc.collect()
        return contents([self.parts, *asyncio.all_tasks()], without=asyncio.current_task())


def grown(before: Counter[str], after: Counter[str]) -> set[str]:
    return {path for path in after if after[path] - before[path] >= LEAST}


async def test_a_crowd_of_jobs_leaves_nothing(tmp_path: Path) -> None:
    server = Server(make_config(tmp_path / "state", interval=0.05))
    growing: set[str] | None = None
    async with server.run(tmp_path):
        # One crowd may leave what every server has from then on, such as the figures of an answer that is rare, and a
        # watch holds its last event, however large. A leak grows with each.
        for name in ("first", "second", "third", "fourth", "fifth"):
            before = server.contents()
            await server.crowd(name)

            async def missing(before: Counter[str] = before) -> object:
                return KEPT_UNTIL_DELETED - grown(before, server.contents())

            await until_nothing(missing)
            await server.delete_all()
            await server.forget()
            left = grown(before, server.contents()) - USED_AGAIN
            growing = left if growing is None else growing & left
            if not growing:
                break
    assert not growing
    await stop_all_pods(server.config, grace=0.0)
    assert processes_of(tmp_path) == []
