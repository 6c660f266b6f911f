"""The group `client.training`: training jobs over the functions of `clusters/training/`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from steelyard.clusters import training
from steelyard.clusters.blocking import Sync, blocking, blocking_lines
from steelyard.clusters.connection import Connection, translate_error
from steelyard.clusters.errors import Failed, Fault
from steelyard.clusters.kinds import Kind
from steelyard.clusters.training import BadJob, JobRequest, JobView, TrainingFramework
from steelyard_common.types import Json, mapping
from steelyard_kube import errors as api
from steelyard_kube.resource import TRAINING, find_resource


class AsyncTraining:
    """Training jobs of all kinds. A job is given as its view, or by its name, or as `kind/name`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def framework(self, name: str) -> TrainingFramework:
        """Return a framework for a `JobRequest`: a built-in one, or a resource of kind Framework. Raises BadJob."""
        with self._connection.refusals("list"):
            return await training.framework(self._connection.api, name)

    async def submit(self, manifest: JobRequest | Json, files: Json | None = None) -> JobView:
        """Make a job, of a request or of a whole manifest, and the ConfigMap with its files.

        Raises BadJob before anything is sent, AlreadyExists, Invalid, and NotFound where the namespace is not there.
        """
        if isinstance(manifest, JobRequest):
            where = self._connection.resolve_namespace(manifest.namespace)
            manifest = training.manifest(replace(manifest, namespace=where))
        kind = manifest.get("apiVersion"), manifest.get("kind")
        if kind not in [(known.api_version, known.kind) for known in TRAINING]:
            known = ", ".join(known.kind for known in TRAINING)
            said = f"{kind[0]}/{kind[1]} should be one of {known}"
            raise BadJob(f"kind: {said}", [Fault("kind", said)])
        job = self._place(manifest)
        placed = None if files is None else self._place(files)
        with self._connection.refusals("create", job):
            try:
                return await training.submit(self._connection.api, job, placed)
            except BadJob as error:
                if isinstance(error.__cause__, api.ApiError):
                    raise _refusal(error.__cause__, job) from error.__cause__
                raise

    async def list(self, namespace: str | None = None, *, everywhere: bool = False) -> Sequence[JobView]:
        """Return the jobs of all kinds, the newest last."""
        where = None if everywhere else self._connection.resolve_namespace(namespace)
        with self._connection.refusals("list"):
            return await training.list_jobs(self._connection.api, where)

    async def get(self, name: str, namespace: str | None = None) -> JobView:
        """Return the job called `name`, or `kind/name`. Raises NoSuchJob."""
        with self._connection.refusals("get"):
            return await training.find(
                self._connection.api, name, self._connection.resolve_namespace(namespace)
            )

    async def wait(
        self, job: JobView | str, namespace: str | None = None, *, timeout: float | None = None
    ) -> JobView:
        """Return the job when it has succeeded. Raises Failed, JobDeleted, and WaitedTooLong; `status` is the job."""
        view = await self._view(job, namespace)
        with self._connection.refusals("watch", view.resource):
            ended = await training.wait(self._connection.api, view, timeout=timeout)
        if ended.state == "Failed":
            raise Failed(str(ended), ended)
        return ended

    async def changes(self, job: JobView | str, namespace: str | None = None) -> AsyncIterator[JobView]:
        """Yield the job at each of its changes, until it is deleted."""
        view = await self._view(job, namespace)
        with self._connection.refusals("watch", view.resource):
            async with aclosing(training.changes(self._connection.api, view)) as views:
                async for now in views:
                    yield now

    async def stop(self, job: JobView | str, namespace: str | None = None) -> JobView:
        """End the job's Pods; `resume` starts them again. Raises BadJob."""
        view = await self._view(job, namespace)
        with self._connection.refusals("patch", view.resource):
            return await training.stop(self._connection.api, view)

    async def resume(self, job: JobView | str, namespace: str | None = None) -> JobView:
        """Start a stopped job again. Raises BadJob."""
        view = await self._view(job, namespace)
        with self._connection.refusals("patch", view.resource):
            return await training.resume(self._connection.api, view)

    async def delete(self, job: JobView | str, namespace: str | None = None) -> None:
        """Delete the job, and with it its Pods and their logs."""
        view = await self._view(job, namespace)
        with self._connection.refusals("delete", view.resource):
            await training.delete(self._connection.api, view)

    async def _view(self, job: JobView | str, namespace: str | None) -> JobView:
        return await self.get(job, namespace) if isinstance(job, str) else job

    def _place(self, obj: Json) -> Json:
        """Return an object with its namespace: that of calls that name none, where it names none. Raises BadJob."""
        if not mapping(obj, "metadata").get("name"):
            raise BadJob("metadata.name: is required", [Fault("metadata.name", "is required")])
        where = self._connection.resolve_namespace(mapping(obj, "metadata").get("namespace"))
        return {**obj, "metadata": {**obj["metadata"], "namespace": where}}


def _refusal(error: api.ApiError, manifest: Json) -> Exception:
    resource, metadata = find_resource(manifest), manifest["metadata"]
    kind = Kind(resource.group, resource.plural, resource.kind, (resource.version,), product="Steelyard")
    return translate_error(error, "create", kind, metadata["name"], metadata["namespace"])


class Training(Sync):
    """Training jobs of all kinds. A job is given as its view, or by its name, or as `kind/name`."""

    framework = blocking(AsyncTraining.framework)
    submit = blocking(AsyncTraining.submit)
    list = blocking(AsyncTraining.list)
    get = blocking(AsyncTraining.get)
    wait = blocking(AsyncTraining.wait)
    changes = blocking_lines(AsyncTraining.changes)
    stop = blocking(AsyncTraining.stop)
    resume = blocking(AsyncTraining.resume)
    delete = blocking(AsyncTraining.delete)
