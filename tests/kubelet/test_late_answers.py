"""Answers that reach the kubelet after its watch has sent a later state."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.cluster import Patch, Resource, WatchEvent
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import (
    Machine,
    is_running,
    make_config,
    make_container,
    make_pod,
)
from tests.kubelet.conftest import processes_of


class LateAnswers(MemoryCluster):
    """Holds back the answer to the status that says `running` until the watch has sent what `meanwhile` did."""

    def __init__(self, meanwhile: Callable[["LateAnswers"], Any], shows_it: Callable[[Json], bool]) -> None:
        super().__init__(now=lambda: datetime.now(UTC))
        self._meanwhile, self._shows_it = meanwhile, shows_it
        self._heard = asyncio.Event()
        self.was_late = False

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Json:
        answer = await super().patch(resource, name, patch, namespace, subresource=subresource)
        if subresource == "status" and resource == PODS and is_running(answer) and not self.was_late:
            self.was_late = True
            await self._meanwhile(self)
            await asyncio.wait_for(self._heard.wait(), 60)
        return answer

    async def watch(self, resource: Resource, *arguments: Any, **options: Any) -> AsyncIterator[WatchEvent]:
        async for event in super().watch(resource, *arguments, **options):
            yield event
            # The reader asks for the next event once it has taken this one in.
            if resource == PODS and self._shows_it(event.object):
                self._heard.set()


class DeletedBefore(MemoryCluster):
    """Deletes the Pod right before the status that says `running`, whose answer shows it before the watch does."""

    def __init__(self) -> None:
        super().__init__(now=lambda: datetime.now(UTC))
        self.was_deleted = False

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Json:
        if isinstance(patch, dict) and is_running(patch) and not self.was_deleted:
            self.was_deleted = True
            await delete(self)
        return await super().patch(resource, name, patch, namespace, subresource=subresource)


async def delete(cluster: MemoryCluster) -> None:
    await cluster.delete(PODS, "pod", "default")


async def label(cluster: MemoryCluster) -> None:
    await cluster.patch(PODS, "pod", {"metadata": {"labels": {"app": "two"}}}, "default")


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(make_config(tmp_path / "state", interval=0.05))
    yield made
    await made.stop()
    await stop_all_pods(made.config, grace=0.0)
    assert processes_of(tmp_path) == []


async def test_a_deletion_that_overtakes_an_answer_is_carried_out(machine: Machine) -> None:
    late = LateAnswers(delete, lambda pod: "deletionTimestamp" in pod["metadata"])
    machine.cluster = late
    machine.start()
    await machine.cluster.create(PODS, make_pod(make_container("exec sleep 600")))
    await machine.until_gone()
    assert late.was_late


async def test_a_deletion_that_an_answer_shows_first_is_carried_out(machine: Machine) -> None:
    early = DeletedBefore()
    machine.cluster = early
    machine.start()
    await machine.cluster.create(PODS, make_pod(make_container("exec sleep 600")))
    await machine.until_gone()
    assert early.was_deleted


async def test_labels_that_overtake_an_answer_are_shown(machine: Machine) -> None:
    late = LateAnswers(label, lambda pod: pod["metadata"]["labels"]["app"] == "two")
    machine.cluster = late
    machine.start()
    field = {"fieldRef": {"fieldPath": "metadata.labels"}, "path": "labels"}
    container = make_container(
        "until grep -q two /shown/labels; do sleep 0.05; done",
        volumeMounts=[{"name": "v", "mountPath": "/shown"}],
    )
    volumes = [{"name": "v", "downwardAPI": {"items": [field]}}]
    await machine.run(make_pod(container, volumes=volumes))
    assert late.was_late
