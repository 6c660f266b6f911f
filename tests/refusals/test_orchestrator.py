"""The orchestrator, which makes the resources of entities with all that they need; it tells in the entity's message."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

from steelyard.accounts.claims import Claim
from steelyard.broker.in_memory import MemoryLog
from steelyard.services.orchestrator.cache import ResourceCache
from steelyard.services.orchestrator.edge import Edge
from steelyard.services.orchestrator.manifest import KUBE
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.orchestrator.test_edge import EdgeHarness
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.orchestrator.workers import Quarantine, Workers
from steelyard.services.simulation.entities import START, make_all_kinds
from steelyard.services.status_commands import Status
from steelyard_kube.resource import Resource
from steelyard_kube.workqueue import Backoff, WorkQueue
from steelyard_schema.base import DyffEntity
from steelyard_schema.names import account_namespace
from tests.exploration.virtual_time import run
from tests.refusals.judging import MINUTE, TRIES, WRITES, refusal_in
from tests.refusals.refusing import BUSY, RefusingCluster, lasting_ways

ENTITIES = {kind: entity for entity in make_all_kinds() if (kind := type(entity).__name__) in KUBE}
REPORTS = 4
"""Most statuses of one entity in two minutes: the message may follow the API's words once a minute."""


@dataclass
class Platform(EdgeHarness):
    """A claim that follows the reports about it, as the log would let it."""

    published: list[Status] = field(default_factory=list)

    async def report(self, claim: Claim, status: Status) -> None:
        self.published.append(status)
        self.newest_claim = replace(claim, status=status.status, reason=status.reason, message=status.message)


async def live(cluster: RefusingCluster, entity: DyffEntity, seconds: float) -> Platform:
    platform = Platform(replace(claim_of(entity), admitted_at=START), cluster=cluster)
    queue: WorkQueue[str] = WorkQueue(Backoff(cap=10.0))
    edge = Edge(
        cluster, ResourceCache(cluster, lambda id, resource, gone: None), platform, OrchestratorSettings()
    )
    workers = Workers(
        queue,
        edge.reconcile,
        Quarantine(MemoryLog()),
        clock=cluster.clock,
        leadership=lambda: True,
        metrics=OrchestratorMetrics(),
    )
    queue.add(entity.id)
    work = asyncio.create_task(workers.work())
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await cluster.stop.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    queue.close()
    return platform


@cache
def written(kind: str) -> tuple[Resource, ...]:
    async def case() -> RefusingCluster:
        cluster = RefusingCluster("a quota", lambda attempt: False)
        await live(cluster, ENTITIES[kind], 1.0)
        return cluster

    return tuple(sorted({attempt.resource for attempt in run(case()).tried}, key=str))


def test_each_kind_with_a_workflow_has_a_case() -> None:
    assert ENTITIES.keys() == KUBE.keys()
    assert all(KUBE[kind] in written(kind) for kind in KUBE)


@pytest.mark.parametrize("way", lasting_ways("create"))
@pytest.mark.parametrize("kind", ENTITIES)
def test_a_refused_entity_says_it_and_waits(kind: str, way: str) -> None:
    for resource in written(kind):

        async def case(resource: Resource = resource) -> tuple[RefusingCluster, Platform]:
            cluster = RefusingCluster(
                way, lambda attempt: attempt.resource == resource, account_namespace(ENTITIES[kind].account)
            )
            return cluster, await live(cluster, ENTITIES[kind], 2 * MINUTE)

        cluster, platform = run(case())
        assert cluster.refused
        for minute, tries in enumerate(TRIES):
            writes = cluster.between(minute * MINUTE, (minute + 1) * MINUTE)
            assert sum(writes.values()) <= tries * WRITES, writes
        assert len(platform.published) <= REPORTS, platform.published
        # A namespace that is missing is made again; a cluster may have no network policies, or those that it needs.
        made = platform.published and platform.published[-1].status == "Admitted"
        if way not in BUSY and way != "a namespace that is missing" and not made:
            assert any(refusal_in(status.message or "", cluster.messages) for status in platform.published)
