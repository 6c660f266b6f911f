"""The group `client.training`: training jobs over the functions of `clusters/training/`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from steelyard.clusters import training
from steelyard.clusters.blocking import Sync, blocking, blocking_lines
from steelyard.clusters.connection import Connection
from steelyard.clusters.training import JobView
from steelyard.types import Json


class AsyncTraining:
    """Training jobs of all kinds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def submit(self, manifest: Json, files: Json | None = None) -> JobView:
        """Make a job, and the ConfigMap with its files. Raises BadJob."""
        with self._connection.refusals("create", manifest):
            return await training.submit(self._connection.api, manifest, files)

    async def list(self, namespace: str | None = None, *, everywhere: bool = False) -> Sequence[JobView]:
        """Return the jobs of all kinds, the newest last."""
        where = None if everywhere else self._connection.where(namespace)
        with self._connection.refusals("list"):
            return await training.list_jobs(self._connection.api, where)

    async def get(self, name: str, namespace: str | None = None) -> JobView:
        """Return the job called `name`, or `kind/name`. Raises NoSuchJob."""
        with self._connection.refusals("get"):
            return await training.find(self._connection.api, name, self._connection.where(namespace))

    async def wait(self, job: JobView, *, timeout: float | None = None) -> JobView:
        """Return the job when it has ended. Raises JobDeleted, WaitedTooLong."""
        with self._connection.refusals("watch", job.resource):
            return await training.wait(self._connection.api, job, timeout=timeout)

    async def changes(self, job: JobView) -> AsyncIterator[JobView]:
        """Yield the job at each of its changes, until it is deleted."""
        with self._connection.refusals("watch", job.resource):
            async with aclosing(training.changes(self._connection.api, job)) as views:
                async for view in views:
                    yield view

    async def stop(self, job: JobView) -> JobView:
        """End the job's Pods; `resume` starts them again. Raises BadJob."""
        with self._connection.refusals("patch", job.resource):
            return await training.stop(self._connection.api, job)

    async def resume(self, job: JobView) -> JobView:
        """Start a stopped job again. Raises BadJob."""
        with self._connection.refusals("patch", job.resource):
            return await training.resume(self._connection.api, job)

    async def delete(self, job: JobView) -> None:
        """Delete the job, and with it its Pods and their logs."""
        with self._connection.refusals("delete", job.resource):
            await training.delete(self._connection.api, job)


class Training(Sync):
    """Training jobs of all kinds."""

    submit = blocking(AsyncTraining.submit)
    list = blocking(AsyncTraining.list)
    get = blocking(AsyncTraining.get)
    wait = blocking(AsyncTraining.wait)
    changes = blocking_lines(AsyncTraining.changes)
    stop = blocking(AsyncTraining.stop)
    resume = blocking(AsyncTraining.resume)
    delete = blocking(AsyncTraining.delete)
