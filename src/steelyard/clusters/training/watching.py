"""A job watched: each of its changes, or the first that was waited for."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from steelyard.clusters.training.errors import JobDeleted, WaitedTooLong
from steelyard.clusters.training.view import JobView
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Informer


async def wait(
    cluster: Cluster,
    job: JobView,
    *,
    until: Callable[[JobView], bool] = lambda job: job.finished,
    timeout: float | None = None,
) -> JobView:
    """The job, once `until` holds. Raises JobDeleted, and WaitedTooLong after `timeout` seconds."""
    if until(job):
        return job
    try:
        async with asyncio.timeout(timeout), aclosing(changes(cluster, job)) as views:
            async for now in views:
                job = now
                if until(now):
                    return now
    except TimeoutError:
        said = f"{job.name}: was not done after {timeout:g} s; it is {job.state}"
        raise WaitedTooLong(said, job) from None
    raise JobDeleted(f"{job.name}: was deleted")


async def changes(cluster: Cluster, job: JobView) -> AsyncGenerator[JobView, None]:
    """The job at each of its changes; ends when it is deleted."""
    queue: asyncio.Queue[JobView | None] = asyncio.Queue()
    informer = _informer(cluster, job, queue.put_nowait)
    task = asyncio.ensure_future(informer.run())
    gone = asyncio.ensure_future(_wait_for_absence(informer, job, queue))
    try:
        while (now := await queue.get()) is not None:
            yield now
    finally:
        for waiting in (task, gone):
            waiting.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _wait_for_absence(informer: Informer, job: JobView, queue: "asyncio.Queue[JobView | None]") -> None:
    """An informer says nothing of what its first list has not."""
    await informer.synced.wait()
    if informer.get(job.namespace, job.name) is None:
        queue.put_nowait(None)


def _informer(cluster: Cluster, job: JobView, listener: Callable[[JobView | None], None]) -> Informer:
    def on_change(old: Json | None, new: Json | None) -> None:
        ours = new is not None and new["metadata"]["uid"] == job.uid
        listener(JobView(new) if ours and new is not None else None)

    return Informer(
        cluster,
        job.type,
        namespace=job.namespace,
        field_selector=f"metadata.name={job.name}",
        on_change=on_change,
    )
