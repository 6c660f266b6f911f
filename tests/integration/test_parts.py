"""The built-in controllers, the names and the process kubelet together, on the in-memory cluster."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.awake import SleepWatch
from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import DEPLOYMENTS, EVENTS, JOBS, PODS, SERVICES
from steelyard_local_kubernetes.controllers.caches import Caches
from steelyard_local_kubernetes.controllers.objects import make_deployment, make_job, make_service
from steelyard_local_kubernetes.controllers.run import run_controllers
from steelyard_local_kubernetes.kubelet.kubelet import run_kubelet, stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import make_config, make_container
from steelyard_local_kubernetes.names.run import run_names


class Parts:
    """Processes of one machine without the API server."""

    def __init__(self, folder: Path) -> None:
        self.ahead = timedelta()
        self.cluster = MemoryCluster(now=self.now)
        self.watch = SleepWatch(self.now, time.monotonic)
        self.sleep_counts = False
        self.config = make_config(folder)
        self.hosts = folder / "hosts"
        self.stop = asyncio.Event()

    def now(self) -> datetime:
        """Return the wall clock of this simulation."""
        return datetime.now(UTC) + self.ahead

    def slept(self, since: datetime) -> float:
        return 0.0 if self.sleep_counts else self.watch.since(since)

    async def run(self) -> None:
        caches = Caches(self.cluster)
        async with asyncio.TaskGroup() as group:
            group.create_task(caches.run(self.stop))
            group.create_task(run_names(caches, self.hosts, stop=self.stop))
            group.create_task(
                run_controllers(self.cluster, caches, stop=self.stop, now=self.now, slept=self.slept)
            )
            kubelet = run_kubelet(
                self.cluster, self.config, stop=self.stop, slept=self.slept, now=self.now, pods=caches
            )
            group.create_task(kubelet)

    async def until(self, holds: Callable[[], Any], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110  (the parts do it)
                await asyncio.sleep(0.01)

    def true_conditions(self, name: str) -> set[str]:
        job = self.cluster.store.find(JOBS, name, "default") or {}
        return {
            condition["type"]
            for condition in job.get("status", {}).get("conditions", ())
            if condition["status"] == "True"
        }


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    made = Parts(tmp_path / "state")
    task = asyncio.create_task(made.run())
    yield made
    made.stop.set()
    await task
    await stop_all_pods(made.config, grace=0.5)


def template(script: str, **spec: Any) -> Json:
    labels = {"labels": {"app": "demo"}}
    return {
        "metadata": labels,
        "spec": {"containers": [make_container(script)], "restartPolicy": "Never", **spec},
    }


async def test_a_job_runs_its_program_once(parts: Parts, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    await parts.cluster.create(JOBS, make_job(template=template(f"echo ran >> {trace}")))
    await parts.until(lambda: "Complete" in parts.true_conditions("demo"))
    assert trace.read_text() == "ran\n"
    await parts.until(lambda: parts.cluster.store.objects(EVENTS))
    assert "SuccessfulCreate" in {event["reason"] for event in parts.cluster.store.objects(EVENTS)}


@pytest.mark.parametrize("counted", [False, True], ids=["time awake counts", "sleep counts too"])
async def test_a_night_with_a_closed_lid(parts: Parts, tmp_path: Path, *, counted: bool) -> None:
    """The container fails once in the morning, so that both controller and kubelet check their deadlines."""
    parts.sleep_counts = counted
    begun, morning = tmp_path / "begun", tmp_path / "morning"
    script = (
        f"touch {begun}; test -e {morning} && exit 0; while test ! -e {morning}; do sleep 0.02; done; exit 1"
    )
    spec = template(script, restartPolicy="OnFailure", activeDeadlineSeconds=600)
    await parts.cluster.create(JOBS, make_job(template=spec, activeDeadlineSeconds=600, backoffLimit=3))
    await parts.until(begun.exists)
    parts.ahead += timedelta(hours=9)
    morning.touch()
    await parts.until(lambda: parts.true_conditions("demo") & {"Complete", "Failed"})
    assert ("Complete" in parts.true_conditions("demo")) is not counted


async def test_a_job_whose_program_fails_fails(parts: Parts) -> None:
    await parts.cluster.create(JOBS, make_job(template=template("exit 65")))
    await parts.until(lambda: "Failed" in parts.true_conditions("demo"))
    assert len(parts.cluster.store.objects(PODS)) == 1


async def test_many_jobs_end(parts: Parts) -> None:
    for number in range(20):
        await parts.cluster.create(JOBS, make_job(f"job-{number}", template=template("true")))
    await parts.until(lambda: all("Complete" in parts.true_conditions(f"job-{n}") for n in range(20)), 60)


async def test_what_is_stopped_before_it_knew_anything_ends(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "state")
    parts.stop.set()
    async with asyncio.timeout(60):
        await parts.run()


async def test_a_deployments_ready_pods_get_the_services_name(parts: Parts) -> None:
    await parts.cluster.create(SERVICES, make_service())
    serving = template("sleep 60", restartPolicy="Always")
    await parts.cluster.create(DEPLOYMENTS, make_deployment(template=serving))

    def addresses() -> set[str]:
        lines = [line.partition("#")[0].split() for line in parts.hosts.read_text().splitlines()]
        return {words[0] for words in lines if "demo.default.svc" in words}

    await parts.until(lambda: len(addresses()) == 2)
    pods = parts.cluster.store.objects(PODS)
    assert addresses() == {pod["status"]["podIP"] for pod in pods}
    parts.cluster.store.remove(PODS, pods[0]["metadata"]["name"], "default")
    await parts.until(lambda: pods[0]["status"]["podIP"] not in addresses() and len(addresses()) == 2)
