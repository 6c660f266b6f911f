"""Tests of accepted objects of any shape: afterwards server, controllers and scheduler live, and work a usual
Job to its end.

A seeded few in `make test` (STEELYARD_FUZZ_SEED repeats the choice), many in `make soak`.
"""

import asyncio
import json
import os
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from hypothesis import HealthCheck, given, seed, settings

from steelyard_common.types import Json
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.events import EventRecorder
from steelyard_kube.informer import Informer
from steelyard_kube.resource import JOBS, PODS
from steelyard_local_kubernetes.apiserver import pki
from steelyard_local_kubernetes.apiserver.database import SqliteDatabase
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.apiserver.store import Row
from steelyard_local_kubernetes.controllers.caches import BUILT_IN, Caches
from steelyard_local_kubernetes.controllers.pods import is_true
from steelyard_local_kubernetes.controllers.run import run_controllers
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.scheduler import Scheduler
from steelyard_local_kubernetes.kubelet.testing import make_config
from tests.kubernetes_api.api import MERGE, Answer, Api, job
from tests.kubernetes_api.strange import BASES, CONTAINER, KINDS, POD, collection, strange_objects

TOKEN = "a token of tests"
CHOSEN = int(os.environ.get("STEELYARD_FUZZ_SEED", "1"))
LATEST = 60.0  # seconds in which a usual Job ends, on a busy machine too
T = TypeVar("T")


@dataclass(frozen=True)
class NodeContext:
    cluster: RestCluster
    config: KubeletConfig
    events: EventRecorder


class ApiAndScheduler:
    """All but the kubelet, in a thread of its own: Pods that are bound succeed at once where they should."""

    def __init__(self, folder: Path, stored: tuple[Row, ...] = ()) -> None:
        self.folder, self.faults, self.stored = folder, Faults(), stored
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    async def _main(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        path = self.folder / "db"
        if self.stored:
            database = SqliteDatabase(path)
            database.commit(1000, self.stored)
            database.close()
        config = ApiServerConfig(path, self.folder / "pki", {TOKEN: "tester"}, faults=self.faults)
        async with serve(config) as server:
            kubeconfig = self.folder / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(pki.kubeconfig(server.url, server.ca, TOKEN)))
            self.api, self.cluster = Api(kubeconfig), await connect(kubeconfig)
            await self._begin(self.cluster)
            self._ready.set()
            await self._stop.wait()
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            await self.api.close()
            await self.cluster.close()

    async def _begin(self, cluster: RestCluster) -> None:
        caches = Caches(cluster, self.faults, BUILT_IN)
        informer = Informer(cluster, PODS, on_change=lambda old, new: scheduler.wake.set())
        events = EventRecorder(cluster, component="test", now=lambda: datetime.now(UTC))
        place = NodeContext(cluster, make_config(self.folder / "node", cpu=64.0, memory=2**36), events)
        scheduler = Scheduler(place, informer.items, self.faults)
        parts = [
            caches.run(self._stop),
            run_controllers(cluster, caches, stop=self._stop, faults=self.faults),
        ]
        parts += [informer.run(), scheduler.run()]
        self.tasks += [asyncio.create_task(part) for part in parts]
        await caches.wait_for_sync()

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(LATEST)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    # ---- what a case does

    async def play(self, kind: ResourceType, obj: Json, status: Any) -> list[Answer]:
        """Make it, give it a status, and delete it again."""
        path = collection(kind)
        answers = [await self.api.request("POST", path, as_sent(obj))]
        if answers[0].status == 201:
            made = answers[0].json["metadata"]
            path = f"{path}/{made['name']}"
            if kind.has_status:
                answers.append(
                    await self.api.request("PATCH", f"{path}/status", as_sent({"status": status}), type=MERGE)
                )
            await asyncio.sleep(0)
            answers.append(await self.api.request("PATCH", path, as_sent(obj | {"metadata": {}}), type=MERGE))
            answers.append(await self.api.get(path))
            deletion = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
            answers.append(await self.api.request("DELETE", path, deletion))
            await self.api.request("PATCH", path, {"metadata": {"finalizers": None}}, type=MERGE)
        return answers

    async def work_a_job(self, name: str) -> None:
        usual = job(name, suspend=False)
        usual["metadata"]["namespace"] = "default"
        await self.cluster.create(JOBS, usual)
        selector = f"batch.kubernetes.io/job-name={name}"
        while not is_true(await self.cluster.get(JOBS, name, "default"), "Complete"):
            self.check()
            for pod in (await self.cluster.list(PODS, "default", label_selector=selector)).items:
                if pod["spec"].get("nodeName"):
                    patch = {"status": {"phase": "Succeeded"}}
                    await self.cluster.patch(
                        PODS, pod["metadata"]["name"], patch, "default", subresource="status"
                    )
            await asyncio.sleep(0.005)
        await self.cluster.delete(JOBS, name, "default")

    def check(self) -> None:
        for task in self.tasks:
            assert not task.done(), task

    def number(self) -> int:
        self._count = getattr(self, "_count", 0) + 1
        return self._count


def as_sent(value: Any) -> bytes:
    """Encode values beyond JSON, too: numbers of any size, NaN, halves of letters."""
    return json.dumps(value).encode()


@pytest.fixture(scope="module")
def server(embedded_only: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiAndScheduler]:
    running = ApiAndScheduler(tmp_path_factory.mktemp("strange"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def embedded_only() -> None:
    if os.environ.get("KUBECONFIG_REAL"):
        pytest.skip("about the embedded server alone")


def play(server: ApiAndScheduler, case: tuple[ResourceType, Json, Any]) -> None:
    kind, obj, status = case
    for answer in server.run(server.play(kind, obj, status)):
        # Some refusals of a real server's are a 500 without a reason.
        assert answer.status < 500 or not answer.json["reason"], answer.raw[:2000]
    server.check()
    number = server.number()
    if number % 25 == 0:
        server.run(server.work_a_job(f"usual-{number}"))
    assert server.faults.number("apiserver", "request") == 0


FEW = settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@seed(CHOSEN)
@FEW
@given(case=strange_objects())
def test_no_object_takes_the_others_down(
    server: ApiAndScheduler, case: tuple[ResourceType, Json, Any]
) -> None:
    play(server, case)


@pytest.mark.soak
@settings(FEW, max_examples=5_000)
@given(case=strange_objects())
def test_no_object_of_very_many_takes_the_others_down(
    server: ApiAndScheduler, case: tuple[ResourceType, Json, Any]
) -> None:
    play(server, case)


def stored(kind: str, number: int, obj: Json, *, namespace: str = "default") -> Row:
    """A row as a server without our checks would have written it."""
    name = f"old-{number}"
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(number)}
    metadata |= {"creationTimestamp": "2026-01-01T00:00:00Z", **obj.pop("metadata", {})}
    kind_description = KINDS[kind]
    whole = {"apiVersion": kind_description.api_version, "kind": kind, "metadata": metadata, **obj}
    return kind_description.bucket, namespace, name, as_sent(whole)


def with_spec(kind: str, **spec: Any) -> Json:
    return {"spec": {**BASES[kind]["spec"], **spec}}


def asking(**amounts: Any) -> Json:
    return {"spec": {**POD, "containers": [CONTAINER | {"resources": {"requests": amounts}}]}}


OLD = [
    ("Deployment", with_spec("Deployment", strategy={"rollingUpdate": {"maxSurge": "abc"}})),
    ("Deployment", with_spec("Deployment", replicas=2**63 - 1)),
    ("ReplicaSet", with_spec("ReplicaSet", replicas="many")),
    ("ReplicaSet", {"spec": {}}),
    ("Job", with_spec("Job", activeDeadlineSeconds=2**63 - 1, parallelism=-5)),
    ("Job", with_spec("Job", completions=2**63 - 1) | {"status": {"completedIndexes": "0-2147483646"}}),
    ("Job", {"spec": None, "status": []}),
    ("Pod", asking(memory="1e999")),
    ("Pod", asking(memory="many", cpu=[])),
    ("Pod", {"spec": {"nodeName": "this-machine"}, "status": {"podIP": 5, "conditions": [{}]}}),
    ("Pod", {"spec": {}, "metadata": {"deletionTimestamp": "never", "ownerReferences": [{"uid": "x"}]}}),
    ("Service", {"spec": {"selector": {"a": 5}, "clusterIP": 5, "ports": [{}]}}),
    ("EndpointSlice", {"endpoints": [{}], "ports": [{"port": "x"}]}),
    ("Event", {"lastTimestamp": "never", "metadata": {"creationTimestamp": 5}}),
    ("PriorityClass", {"value": "high", "globalDefault": False}),
]


def test_what_an_older_version_stored_stops_nothing(embedded_only: None, tmp_path: Path) -> None:
    """The server starts, and all work a usual Job to its end."""
    rows = [stored(kind, number, dict(obj)) for number, (kind, obj) in enumerate(OLD, 2)]
    server = ApiAndScheduler(
        tmp_path, (*rows, ("pods", "default", "no-json", b"{"), ("configmaps", "default", "odd", b"[]"))
    )
    try:
        server.run(server.work_a_job("usual"))
        for kind, _ in OLD:
            answer = server.run(server.api.get(collection(KINDS[kind])))
            assert answer.status == 200, answer.raw[:500]
        for part in ("store", "controllers", "scheduler"):
            assert part in server.faults.parts()
    finally:
        server.stop()
