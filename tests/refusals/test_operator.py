"""The operator: each kind of resource, with its workers, queue, caches and events."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest

from steelyard.operator.main import Operator
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation import resources
from steelyard.operator.training.frameworks.test_definition import make_framework
from steelyard.operator.workflow import WORKFLOWS
from steelyard_common.types import Json
from steelyard_kube.resource import (
    ANALYSES,
    AUDITS,
    DATA_SOURCES,
    DATASETS,
    EVALUATIONS,
    EVENTS,
    FRAMEWORKS,
    INFERENCE_SERVICES,
    INFERENCE_SESSIONS,
    MODELS,
    REPORTS,
    TRAINING,
    Resource,
)
from tests.exploration.virtual_time import run
from tests.refusals.judging import MINUTE, judge
from tests.refusals.refusing import NAMESPACE, WAYS, RefusingCluster, ways_of
from tests.refusals.test_embedded import make_training

SETTINGS = OperatorSettings(storage="file:///storage")
OWNERS: dict[Resource, Callable[[], Json]] = {
    ANALYSES: resources.make_analysis,
    AUDITS: resources.make_audit,
    DATA_SOURCES: resources.make_data_source,
    DATASETS: resources.make_dataset,
    EVALUATIONS: resources.make_evaluation,
    INFERENCE_SERVICES: resources.make_service,
    INFERENCE_SESSIONS: resources.make_session,
    MODELS: resources.make_model,
    REPORTS: resources.make_report,
    **{resource: lambda kind=resource.kind: make_training(kind) for resource in TRAINING},  # type: ignore[misc]
}
INSTANT = frozenset({INFERENCE_SERVICES})
"""Kinds without children: there is nothing to refuse but their status."""


async def live(cluster: RefusingCluster, owner: Json, seconds: float) -> RefusingCluster:
    metadata = {"name": owner["metadata"]["name"], "namespace": NAMESPACE}
    cluster.store.put({**owner, "metadata": metadata})
    cluster.store.put({**make_framework(), "apiVersion": FRAMEWORKS.api_version})
    operator = Operator(cluster, SETTINGS, cluster.clock.now)
    work = asyncio.create_task(operator.work())
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await cluster.stop.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return cluster


@cache
def written(resource: Resource) -> tuple[tuple[str, Resource], ...]:
    async def case() -> RefusingCluster:
        return await live(RefusingCluster("a quota", lambda attempt: False), OWNERS[resource](), MINUTE)

    writes = {(attempt.verb, attempt.resource) for attempt in run(case()).tried if attempt.resource != EVENTS}
    return tuple(sorted(writes, key=str))


def test_each_workflow_has_a_case() -> None:
    assert OWNERS.keys() == WORKFLOWS.keys()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("resource", OWNERS, ids=lambda resource: resource.kind)
def test_a_refused_workflow_says_it_and_waits(resource: Resource, way: str) -> None:
    for verb, kind in written(resource):
        if way not in ways_of(verb):
            continue

        async def case(verb: str = verb, kind: Resource = kind) -> RefusingCluster:
            refuses = lambda attempt: (attempt.verb, attempt.resource) == (verb, kind)  # noqa: E731
            return await live(RefusingCluster(way, refuses), OWNERS[resource](), 2 * MINUTE)

        judge(run(case()), silent=verb != "create")


@pytest.mark.parametrize("resource", OWNERS, ids=lambda resource: resource.kind)
def test_each_workflow_makes_something(resource: Resource) -> None:
    verbs = {verb for verb, _ in written(resource)}
    assert "create" in verbs or resource in INSTANT, verbs
