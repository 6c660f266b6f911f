"""Tests of claims: bound step by step, kept apart from what cannot be served, and released when they are gone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from steelyard_local_kubernetes.controllers.decision import Event
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import CLAIM
from steelyard_local_kubernetes.controllers.objects import StoreView
from steelyard_local_kubernetes.controllers.sync import sync

KEY = ("default", "data")


class Simulation:
    """A claim on the in-memory cluster."""

    def __init__(self, **spec: Any) -> None:
        self.cluster = MemoryCluster(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        self.events: list[Event] = []
        record = lambda obj, event: self.events.append(event)  # noqa: E731
        self.edge = Edge(self.cluster, StoreView(self.cluster), self.cluster.store.now, record)
        self.create(**spec)

    def create(self, **spec: Any) -> None:
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
        metadata = {"name": "data", "namespace": "default"}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": wanted}
        self.cluster.store.put({**claim, "status": {"phase": "Pending"}})

    @property
    def claim(self) -> Json:
        stored = self.cluster.store.find(PERSISTENT_VOLUME_CLAIMS, "data", "default")
        assert stored is not None
        return stored

    @property
    def volumes(self) -> list[Json]:
        return self.cluster.store.objects(PERSISTENT_VOLUMES)

    def phases(self) -> list[str]:
        return [volume["status"]["phase"] for volume in self.volumes]


async def test_a_claim_is_bound_to_a_volume_of_its_own() -> None:
    simulation = Simulation(storageClassName="fast")
    await sync(simulation.edge, CLAIM, KEY)
    (volume,) = simulation.volumes
    name = f"pvc-{simulation.claim['metadata']['uid']}"
    assert (volume["metadata"]["name"], simulation.claim["spec"]["volumeName"], simulation.phases()) == (
        name,
        name,
        ["Bound"],
    )
    assert simulation.claim["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    assert (volume["spec"]["storageClassName"], volume["spec"]["claimRef"]["name"]) == ("fast", "data")
    version = simulation.cluster.store.version
    await sync(simulation.edge, CLAIM, KEY)
    assert simulation.cluster.store.version == version


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"volumeName": "by-hand"}, "spec.volumeName"),
        ({"volumeMode": "Block"}, "spec.volumeMode Block"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector"),
        ({"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}, "spec.dataSource"),
    ],
)
async def test_a_claim_that_cannot_be_served_stays_pending_and_says_why(spec: Json, field: str) -> None:
    simulation = Simulation(**spec)
    await sync(simulation.edge, CLAIM, KEY)
    assert (simulation.claim["status"]["phase"], simulation.volumes) == ("Pending", [])
    assert [(event.reason, event.message.startswith(field)) for event in simulation.events] == [
        ("ProvisioningFailed", True)
    ]


async def test_the_volume_of_a_claim_that_is_gone_is_released_and_not_given_to_the_next() -> None:
    simulation = Simulation()
    await sync(simulation.edge, CLAIM, KEY)
    simulation.cluster.store.remove(PERSISTENT_VOLUME_CLAIMS, "data", "default")
    await sync(simulation.edge, CLAIM, KEY)
    assert simulation.phases() == ["Released"]
    simulation.create()
    for _ in range(2):
        await sync(simulation.edge, CLAIM, KEY)
    assert sorted(simulation.phases()) == ["Bound", "Released"]
    assert simulation.claim["spec"]["volumeName"] == f"pvc-{simulation.claim['metadata']['uid']}"


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_a_crash_between_any_two_calls_makes_no_second_volume(after: bool) -> None:
    for call in range(1, 20):
        simulation = Simulation()
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        for _ in range(3):
            try:
                await sync(simulation.edge, CLAIM, KEY)
            except Crash:
                continue
        assert (simulation.phases(), simulation.claim["status"]["phase"]) == (["Bound"], "Bound"), (
            f"crash at call {call}"
        )
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")
