"""Ray jobs by the client: with a cluster of their own, stopped, submitted again, and in a queue."""

from pathlib import Path

import pytest

from steelyard.clusters import AsyncClient, JobConfig, errors
from tests.engines.operators.making import SECONDS, Queues, cluster, until
from tests.engines.operators.test_clusters import PATIENCE, PAUSE, READY
from tests.kubernetes_api.api import Api


@pytest.mark.timeout(1500)
async def test_a_job_brings_its_files_and_its_cluster_and_takes_them_away(
    client: AsyncClient, api: Api, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(
        "import helper, ray, time\n"
        "ray.init()\n"
        "print('said', ray.get(ray.remote(helper.f).remote()), flush=True)\n"
        f"{PAUSE}\n"
    )
    (tmp_path / "helper.py").write_text("def f():\n    return 42\n")
    own = cluster("own", runs=True, workers=0)
    job = JobConfig(name="job", entrypoint="python main.py", cluster_config=own, working_dir=tmp_path)
    jobs = client.ray.jobs
    await jobs.submit(job)
    done = await jobs.wait("job", timeout=READY, poll=0.5, patience=PATIENCE)
    assert done.phase == "Succeeded"
    log = [line async for line in jobs.logs("job")]
    assert "said 42" in log, "\n".join(log)
    with pytest.raises(errors.AlreadyExists):
        await jobs.submit(job)
    with pytest.raises(errors.BadConfig, match="new_name"):
        await jobs.resubmit("job")

    async def left() -> int:
        return len(await client.ray.clusters.list())

    await until(left, lambda count: count == 0)
    await jobs.delete("job")
    await api.gone(f"/api/v1/namespaces/{namespace}/secrets/job-files-000")


async def test_a_job_is_stopped_and_runs_again(client: AsyncClient) -> None:
    jobs = client.ray.jobs
    await jobs.submit(JobConfig(name="job", entrypoint="python -c 1", cluster_config=cluster("own")))
    await until(client.ray.clusters.list, lambda clusters: len(clusters) == 1)
    await jobs.stop("job")
    await until(lambda: jobs.status("job"), lambda status: status.phase == "Stopped")
    await until(client.ray.clusters.list, lambda clusters: not clusters)
    with pytest.raises(errors.Failed) as raised:
        await jobs.wait("job", timeout=SECONDS)
    assert raised.value.status.phase == "Stopped"
    await jobs.resubmit("job")
    await until(client.ray.clusters.list, lambda clusters: len(clusters) == 1)
    copy = await jobs.resubmit("job", new_name="copy")
    assert copy.resource["spec"]["entrypoint"] == "python -c 1"
    await until(jobs.list, lambda states: [status.phase for status in states] == ["Starting", "Starting"])
    await jobs.delete("job")
    await until(client.ray.clusters.list, lambda clusters: len(clusters) == 1)


async def test_a_job_waits_in_its_queue_and_leaves_it_when_it_is_stopped(
    client: AsyncClient, queues: Queues
) -> None:
    # A job has 500m for its cluster, and a submitter of 500m on KubeRay, of 100m on one machine: two do not fit.
    await queues.make(cpu="1100m")
    jobs = client.ray.jobs
    for name in ("first", "second"):
        own = cluster("own", workers=4)
        await jobs.submit(JobConfig(name=name, entrypoint="x", cluster_config=own, queue="team"))
        if name == "first":
            await until(lambda: jobs.status("first"), lambda status: status.phase == "Starting")
    waiting = await until(lambda: jobs.status("second"), lambda status: "cpu" in status.message)
    assert waiting.phase == "Queued"
    await jobs.stop("first")
    await until(lambda: jobs.status("second"), lambda status: status.phase == "Starting")
    await until(lambda: jobs.status("first"), lambda status: status.phase == "Queued")
    await jobs.resubmit("first")
    again = await until(lambda: jobs.status("first"), lambda status: "cpu" in status.message)
    assert again.phase == "Queued"
    await jobs.delete("second")
    await until(lambda: jobs.status("first"), lambda status: status.phase == "Starting")


async def test_what_a_job_names_is_checked_before_anything_is_made(
    client: AsyncClient, queues: Queues, tmp_path: Path
) -> None:
    await queues.make()
    jobs = client.ray.jobs
    (tmp_path / "main.py").write_text("1")
    files = {"entrypoint": "python main.py", "working_dir": tmp_path}
    with pytest.raises(errors.NotFound, match="nowhere"):
        await jobs.submit(JobConfig(name="job", cluster="nowhere", **files))
    own = cluster("own")
    with pytest.raises(errors.BadConfig, match="priority_class"):
        await jobs.submit(
            JobConfig(name="job", cluster_config=own, queue="team", priority_class="none", **files)
        )
    with pytest.raises(errors.BadConfig, match="no such queue"):
        await jobs.submit(JobConfig(name="job", cluster_config=own, queue="none", **files))
    assert await jobs.list() == []
