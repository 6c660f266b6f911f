"""Tests of when the Kubernetes process restarts in place; `tests/integration/test_renewal.py` tests that it does."""

import asyncio
from collections.abc import Iterator

import pytest

from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.renewal import (
    QUIET_SAMPLES,
    QUIET_WRITES,
    MemoryHistory,
    Renewal,
    Sample,
    watch_memory,
)

MB = 1 << 20
SMALL, LARGE = 80 * MB, 160 * MB


@pytest.mark.parametrize(
    ("memory", "written", "due"),
    [
        pytest.param([SMALL] + [LARGE] * (QUIET_SAMPLES - 1), 0, True, id="quiet and grown"),
        pytest.param([SMALL] + [LARGE] * (QUIET_SAMPLES - 2), 0, False, id="quiet for a short time"),
        pytest.param([SMALL] + [SMALL + 15 * MB] * QUIET_SAMPLES, 0, False, id="grown a little"),
        pytest.param([LARGE] * (QUIET_SAMPLES + 1), 0, False, id="large from the start"),
        pytest.param([SMALL] + [LARGE] * QUIET_SAMPLES, QUIET_WRITES, False, id="busy"),
    ],
)
def test_a_process_that_has_grown_restarts_when_it_is_quiet(
    memory: list[int], written: int, due: bool
) -> None:
    history = MemoryHistory()
    answers = [history.add(Sample(size, number * written)) for number, size in enumerate(memory, 1)]
    assert answers == [False] * (len(memory) - 1) + [due]


def test_work_in_between_begins_the_quiet_time_again() -> None:
    history = MemoryHistory()
    versions = [0] * QUIET_SAMPLES + [QUIET_WRITES] * QUIET_SAMPLES
    answers = [history.add(Sample(SMALL if number == 0 else LARGE, at)) for number, at in enumerate(versions)]
    assert answers.index(True) == QUIET_SAMPLES - 1
    assert not any(answers[QUIET_SAMPLES : 2 * QUIET_SAMPLES - 1])


def grown() -> Iterator[Sample]:
    yield Sample(SMALL, 0)
    while True:
        yield Sample(LARGE, 0)


async def test_a_running_pod_delays_it() -> None:
    cluster, stop, renewal, samples = MemoryCluster(), asyncio.Event(), Renewal(), grown()
    for name, phase in (("ended", "Succeeded"), ("running", "Running")):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
        await cluster.create(PODS, pod)
        await cluster.patch(
            PODS, name, {"status": {"phase": phase}}, namespace="default", subresource="status"
        )
    seen = 0

    def take() -> Sample:
        nonlocal seen
        seen += 1
        return next(samples)

    watching = asyncio.create_task(watch_memory(cluster, take, renewal, stop, 0))
    while seen < 3 * QUIET_SAMPLES:  # noqa: ASYNC110 - each turn of the loop is a sample
        await asyncio.sleep(0)
    assert not stop.is_set()
    await cluster.delete(PODS, "running", namespace="default")
    await watching
    assert stop.is_set()
    assert renewal.wanted.is_set()


def test_a_program_that_is_asked_to_end_does_not_restart() -> None:
    renewal, stop = Renewal(), asyncio.Event()
    stop.set()
    renewal.order(stop)
    assert not renewal.wanted.is_set()
