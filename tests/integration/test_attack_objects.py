"""Objects that ask for more than they weigh, with all that works on them: controllers, kubelet and operator.

All of them at once on one machine: no process ends or takes much memory for them, and the Kubernetes process that
follows one that was killed answers with the same objects.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from steelyard.local.state import read_record
from steelyard_common.processes import resident
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, Invalid
from steelyard_kube.resource import NAMESPACES, PODS, STATEFUL_SETS, find_resource
from steelyard_local_kubernetes.at_work import set_aside_in
from tests.integration.conftest import Machine
from tests.kubernetes_api.pod_holders import BOUNDED, LARGEST, SPECS, TRAINING, holders, make_spec

pytestmark = pytest.mark.e2e
Answer = TypeVar("Answer")
MOST = 256 << 20
"""Bytes that a process may have grown by, for all of the objects together."""
BY_OPERATOR = {*TRAINING, "DLJob"}
"""Kinds whose schema bounds the replicas."""


def child(machine: Machine, part: str) -> int:
    """Return the number of a part's process; 0 while there is none."""
    return read_record(machine.state).children.get(part, (0, ""))[0]


def memory(machine: Machine) -> dict[str, int]:
    return {part: resident([child(machine, part)]) for part in ("kubernetes", "operator")}


async def create_all(machine: Machine) -> int:
    """Create a Pod of each spec, and each kind with replicas without number; return how many are taken."""
    attacks = [
        holders(make(), name=f"a{n}")["Pod"]
        for n, (name, make) in enumerate(SPECS.items())
        if name not in BOUNDED
    ]
    largest, bounded = holders(make_spec(), LARGEST, name="r"), holders(make_spec(), 10_000, name="r")
    attacks += [(bounded if kind in BY_OPERATOR else largest)[kind] for kind in largest if kind != "Pod"]
    taken = 0
    async with machine.cluster() as cluster:
        for _, obj in attacks:
            try:
                await cluster.create(
                    find_resource(obj), {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
                )
            except Invalid:
                continue
            except KeyError:  # a kind that no client of ours knows
                continue
            taken += 1
    return taken


async def ask(machine: Machine, call: Callable[[Cluster], Awaitable[Answer]]) -> Answer:
    """Return the API's answer to a call that only reads: a call may find the server busy with the objects."""
    async with asyncio.timeout(120):
        while True:
            try:
                async with machine.cluster() as cluster:
                    return await call(cluster)
            except (ApiError, OSError):
                await asyncio.sleep(0.05)


async def wait_for_answer(machine: Machine) -> None:
    await ask(machine, lambda cluster: cluster.get(NAMESPACES, "default"))


async def pods_of(machine: Machine, number: int) -> None:
    """Wait until there are as many Pods."""
    async with asyncio.timeout(120):
        while len((await ask(machine, lambda cluster: cluster.list(PODS, "default"))).items) < number:  # noqa: ASYNC110 - there is nothing to wait for but the API
            await asyncio.sleep(0.5)


async def test_no_object_ends_a_process_or_takes_its_memory(machine: Machine) -> None:
    machine.up("platform")
    before, first = memory(machine), child(machine, "kubernetes")
    assert await create_all(machine) > 20
    await pods_of(machine, 300)
    await wait_for_answer(machine)
    assert child(machine, "kubernetes") == first
    os.kill(first, signal.SIGKILL)
    async with asyncio.timeout(60):
        while child(machine, "kubernetes") in (0, first):  # noqa: ASYNC110 - the supervisor starts it
            await asyncio.sleep(0.05)
    await wait_for_answer(machine)
    second = child(machine, "kubernetes")
    sets = (await ask(machine, lambda cluster: cluster.list(STATEFUL_SETS, "default"))).items
    assert any(obj["spec"]["replicas"] == LARGEST for obj in sets)
    assert (child(machine, "kubernetes"), set_aside_in(machine.state.at_work)) == (second, [])
    after = memory(machine)
    assert {part: after[part] - before[part] < MOST for part in after} == dict.fromkeys(after, True), (
        before,
        after,
    )
