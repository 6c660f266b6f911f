"""Objects that the operator adds to Ray clusters: networks, dashboards, certificates."""

import asyncio
from contextlib import suppress
from functools import cache

import pytest

from steelyard.operator.ray.run import Surroundings, run_ray
from steelyard.operator.ray.serving.server import ServedAddresses
from steelyard.operator.ray.settings import RaySettings
from steelyard_kube.events import EventRecorder
from steelyard_kube.resource import EVENTS, RAY_CLUSTERS, Resource
from steelyard_local_kubernetes.controllers.ray.test_cluster import make_ray_cluster
from tests.exploration.virtual_time import run
from tests.refusals.judging import MINUTE, judge
from tests.refusals.refusing import TAKEN, Attempt, RefusingCluster, lasting_ways

SETTINGS = RaySettings(dashboard="ingress", domain="example.com", network_policy=True)


async def live(cluster: RefusingCluster, seconds: float) -> RefusingCluster:
    cluster.store.put(make_ray_cluster())
    events = EventRecorder(cluster, component="test", now=cluster.clock.now)
    surroundings = Surroundings(ServedAddresses(), cluster.clock.now, events.record)
    work = [
        run_ray(
            cluster,
            RaySettings(dashboard="ingress", domain="example.com", network_policy=True),
            None,
            surroundings,
        ),
        events.run(),
    ]
    tasks = [asyncio.ensure_future(part) for part in work]
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await cluster.stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return cluster


@cache
def written() -> tuple[tuple[str, Resource], ...]:
    """Return the writes for a Ray cluster where nothing is refused; those for the whole platform are left out."""

    async def case() -> RefusingCluster:
        return await live(RefusingCluster("a quota", lambda attempt: False), MINUTE)

    attempts = {
        (attempt.verb, attempt.resource) for attempt in run(case()).tried if _is_of_a_cluster(attempt)
    }
    return tuple(sorted(attempts, key=str))


def _is_of_a_cluster(attempt: Attempt) -> bool:
    return attempt.resource not in (EVENTS, RAY_CLUSTERS) and attempt.name.startswith("demo")


@pytest.mark.parametrize("way", lasting_ways("create"))
def test_a_refused_object_of_a_ray_cluster_is_told_and_waited_for(way: str) -> None:
    assert written()
    for verb, kind in written():

        async def case(verb: str = verb, kind: Resource = kind) -> RefusingCluster:
            refuses = lambda attempt: (  # noqa: E731
                (attempt.verb, attempt.resource) == (verb, kind) and _is_of_a_cluster(attempt)
            )
            return await live(RefusingCluster(way, refuses), 2 * MINUTE)

        # Another's object of the name is left alone: a user may have made it on purpose.
        judge(run(case()), silent=way == TAKEN)
