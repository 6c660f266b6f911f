"""Jobs on a cluster: made, found, listed, stopped, followed, and what their replicas wrote."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from steelyard.clusters import training
from steelyard.clusters.training import jobs, logs
from steelyard.clusters.training.doubles import (
    make_job,
    make_line,
    make_pod,
    make_request,
    set_phase,
    set_status,
    store,
)
from steelyard.clusters.training.errors import BadJob
from steelyard_kube.cluster import WatchEvent
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import CONFIG_MAPS, FRAMEWORKS, PODS, PYTORCH_JOBS, TF_JOBS, Resource


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


async def test_a_job_is_made_with_its_files_which_go_with_it(cluster: MemoryCluster) -> None:
    files = {"metadata": {"name": "digits-code", "namespace": "default"}, "data": {"train.py": "1"}}
    job = await training.submit(cluster, training.manifest(make_request()), files)
    assert (await cluster.get(CONFIG_MAPS, "digits-code", "default"))["data"] == {"train.py": "1"}
    await training.delete(cluster, job)
    cluster.collect()
    assert (await cluster.list(CONFIG_MAPS)).items == []
    await training.submit(cluster, training.manifest(make_request()))
    with pytest.raises(training.BadJob, match="there is a PyTorchJob of this name"):
        await training.submit(cluster, training.manifest(make_request()))


async def test_a_field_that_does_not_exist_is_refused_before_anything_is_made(cluster: MemoryCluster) -> None:
    manifest = training.manifest(make_request())
    worker = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]
    worker["template"]["spec"]["nodeSelecter"] = {}
    worker["replica"] = 2
    with pytest.raises(training.BadJob) as raised:
        await training.submit(cluster, manifest)
    path = "spec.pytorchReplicaSpecs.Worker"
    assert str(raised.value).split("; ") == [
        f"{path}.template.spec.nodeSelecter: there is no such field",
        "did you mean nodeSelector?",
        f"{path}.replica: there is no such field",
        "did you mean replicas?",
    ]
    assert (await cluster.list(PYTORCH_JOBS)).items == []
    worker |= {f"extra{number}": 1 for number in range(200)}
    with pytest.raises(training.BadJob, match=r"extra7: there is no such field; .*; and more$") as raised:
        await training.submit(cluster, manifest)
    assert str(raised.value).count("there is no such field") == 10


async def test_a_job_is_found_by_its_name_or_by_its_kind_and_name(cluster: MemoryCluster) -> None:
    await store(cluster)
    assert (await training.find(cluster, "digits", "default")).kind == "PyTorchJob"
    await cluster.create(TF_JOBS, {"metadata": {"name": "digits", "namespace": "default"}, "spec": {}})
    for text in ("tfjob/digits", "tf/digits", "tfjobs/digits"):
        assert (await training.find(cluster, text, "default")).kind == "TFJob"
    for text, fault in (
        ("digits", "should be one of tfjob/digits, pytorchjob/digits"),
        ("dig", "no such training job in namespace default; there are digits$"),
        ("cronjob/digits", "there is no kind 'cronjob'"),
    ):
        with pytest.raises(training.NoSuchJob, match=fault):
            await training.find(cluster, text, "default")
    assert [job.kind for job in await training.list_jobs(cluster)] == ["TFJob", "PyTorchJob"]


async def test_a_job_is_stopped_and_resumed_unless_it_has_ended(cluster: MemoryCluster) -> None:
    job = await store(cluster)
    with pytest.raises(training.BadJob, match="is not stopped"):
        await training.resume(cluster, job)
    stopped = await training.stop(cluster, job)
    assert stopped.suspended
    assert not (await training.resume(cluster, stopped)).suspended
    ended = await set_status(cluster, job, conditions=["Succeeded"])
    with pytest.raises(training.BadJob, match="has ended already"):
        await training.stop(cluster, ended)


async def test_logs_of_all_replicas_are_merged_by_time(cluster: MemoryCluster) -> None:
    job = await store(cluster)
    await make_pod(cluster, job, "worker-0", ["1 a", "3 c"])
    await make_pod(cluster, job, "worker-1", ["2 b"])
    await make_pod(cluster, await store(cluster, make_job("other")), "worker-0", ["1 no"])
    pods = await training.pods(cluster, job)
    lines = await training.list_lines([training.Tail(cluster, pod) for pod in pods])
    assert [(line.replica, line.text) for line in lines] == [
        ("worker-0", "a"),
        ("worker-1", "b"),
        ("worker-0", "c"),
    ]
    for wanted, names in ((["worker-1"], ["worker-1"]), (["Worker"], ["worker-0", "worker-1"]), (["ps"], [])):
        assert [logs.find_replica(pod)[0] for pod in training.choose_pods(pods, wanted, job)] == names


async def test_a_log_read_on_repeats_no_line_and_drops_none(cluster: MemoryCluster) -> None:
    pod = await make_pod(cluster, await store(cluster), "worker-0", ["1 a", "2 b", "2 b"])
    tail = training.Tail(cluster, pod)
    assert [line.text async for line in tail.lines(follow=False)] == ["a", "b", "b"]
    cluster.written[pod["metadata"]["uid"]] += [make_line("2 c"), make_line("3 d")]
    assert [line.text async for line in tail.lines(follow=False)] == ["c", "d"]


async def followed(
    cluster: MemoryCluster, job: training.JobView, texts: list[str] | None = None
) -> tuple[list[str], list[str]]:
    """All states, and all lines, which go into `texts` as they come."""
    states, texts = [], [] if texts is None else texts
    async for event in training.follow(cluster, job):
        match event:
            case training.Changed(now):
                states.append(now.state)
            case training.Line(replica, attempt, _, text):
                texts.append(f"{replica}.{attempt} {text}")
    return states, texts


async def both(
    first: Awaitable[tuple[list[str], list[str]]], second: Awaitable[None]
) -> tuple[list[str], list[str]]:
    async with asyncio.timeout(60):
        return (await asyncio.gather(first, second))[0]


async def test_a_job_is_followed_to_its_end_over_a_restart(cluster: MemoryCluster) -> None:
    job = await store(cluster)
    old = await make_pod(cluster, job, "worker-0", ["1 begun before"], phase="Running")

    seen: list[str] = []

    async def until(count: int) -> None:
        while len(seen) < count:  # noqa: ASYNC110  (another task does it)
            await asyncio.sleep(0.002)

    async def goes_on() -> None:
        await until(1)
        cluster.written[old["metadata"]["uid"]].append(make_line("2 then killed"))
        await set_phase(cluster, old, "Failed")
        await until(2)
        await cluster.delete(PODS, old["metadata"]["name"], "default", grace_seconds=0)
        await make_pod(cluster, job, "worker-0", ["3 again"], attempt=1)
        await set_status(cluster, job, conditions=["Succeeded"])

    states, texts = await both(followed(cluster, job, seen), goes_on())
    assert texts == ["worker-0.0 begun before", "worker-0.0 then killed", "worker-0.1 again"]
    assert (states[0], states[-1]) == ("Created", "Succeeded")


class LatePods(MemoryCluster):
    """The watch of the Pods sends nothing in time."""

    async def watch(self, resource: Resource, *given: Any, **more: Any) -> AsyncIterator[WatchEvent]:
        if resource == PODS:
            await asyncio.sleep(60)
        async for event in super().watch(resource, *given, **more):
            yield event


async def test_what_a_pod_wrote_is_read_though_the_job_ended_before_the_pod_was_seen() -> None:
    cluster = LatePods()
    job = await store(cluster)

    async def goes_on() -> None:
        await asyncio.sleep(0.02)
        await make_pod(cluster, job, "worker-0", ["1 quick"])
        await set_status(cluster, job, conditions=["Succeeded"])

    assert (await both(followed(cluster, job), goes_on()))[1] == ["worker-0.0 quick"]


async def test_a_wait_for_a_job_that_is_deleted_ends_with_an_error(cluster: MemoryCluster) -> None:
    job = await store(cluster)
    waiters = [
        asyncio.ensure_future(waiter) for waiter in (followed(cluster, job), training.wait(cluster, job))
    ]
    await asyncio.sleep(0.02)
    await cluster.delete(PYTORCH_JOBS, job.name, "default")
    for waiter in waiters:
        with pytest.raises(training.JobDeleted, match="digits: was deleted"):
            await asyncio.wait_for(waiter, 60)
    with pytest.raises(training.JobDeleted):  # gone before anything is watched
        await asyncio.wait_for(training.wait(cluster, job), 60)


async def test_waiting_ends_when_the_job_does_or_time_is_up(cluster: MemoryCluster) -> None:
    job = await store(cluster)
    with pytest.raises(training.WaitedTooLong, match=r"not done after 0.01 s; it is Created"):
        await training.wait(cluster, job, timeout=0.01)
    await set_status(cluster, job, conditions=["Failed"])
    assert (await training.wait(cluster, job)).state == "Failed"


async def test_a_framework_is_ours_or_a_resource_and_else_refused(cluster: MemoryCluster) -> None:
    assert (await training.framework(cluster, "Torch")).name == "pytorch"
    with pytest.raises(training.BadJob, match="there are pytorch, tensorflow, jax"):
        await training.framework(cluster, "caffe")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("pytroch", "did you mean pytorch? there are"),
        ("TensorFow", "did you mean tensorflow? there are"),
        ("averagin", "did you mean averaging? there are"),
        ("zzz", "there is no such framework; there are"),
    ],
)
async def test_a_framework_that_is_misspelt_is_named_with_the_one_that_was_meant(
    name: str, hint: str
) -> None:
    cluster = MemoryCluster()
    await cluster.create(
        FRAMEWORKS,
        {
            "apiVersion": FRAMEWORKS.api_version,
            "kind": FRAMEWORKS.kind,
            "metadata": {"name": "averaging"},
            "spec": {},
        },
    )
    with pytest.raises(BadJob, match=re.escape(hint)):
        await jobs.framework(cluster, name)
