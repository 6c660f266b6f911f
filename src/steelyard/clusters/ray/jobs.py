"""The group `client.ray.jobs`: RayJobs, and jobs of Ray's own API on a cluster that runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime

from steelyard.clusters.blocking import Sync, blocking, blocking_lines
from steelyard.clusters.connection import Connection, translate_error
from steelyard.clusters.errors import (
    AlreadyExists,
    BadConfig,
    ClusterError,
    Fault,
    Forbidden,
    NotFound,
    Unsupported,
)
from steelyard.clusters.kinds import POD, PRIORITY_CLASS, RAY_CLUSTER, RAY_JOB, SECRET, WORKLOAD, Kind
from steelyard.clusters.queues.activation import set_active
from steelyard.clusters.queues.choice import choose_queue
from steelyard.clusters.queues.view import WorkloadView, find_position
from steelyard.clusters.ray import names
from steelyard.clusters.ray.clusters import AsyncClusters
from steelyard.clusters.ray.dashboard import internal_url
from steelyard.clusters.ray.job_config import JobConfig, queue_job_faults
from steelyard.clusters.ray.job_manifest import owner_patch, piece_secrets, ray_job
from steelyard.clusters.ray.job_status import JobStatus, job_status
from steelyard.clusters.ray.packing import MOST_PIECES, PIECE, pack
from steelyard.clusters.ray.scripts import ensure_script
from steelyard.clusters.ray.submissions import AsyncSubmissions, Dashboard, Submissions
from steelyard.clusters.reading import items, text
from steelyard.clusters.training.logs import Tail
from steelyard.clusters.waiting import POLL_SECONDS, STUCK_SECONDS, wait_for
from steelyard_common.types import Json
from steelyard_kube import errors as api
from steelyard_kube.objects import read_labels

SUBMITTER_LABEL = "job-name"
"""Label of a submitter's Pod, with the name of the RayJob."""
_KEPT = ("labels", "annotations")


class AsyncJobs:
    """Ray jobs of a Kubernetes cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def submit(self, config: JobConfig) -> JobStatus:
        """Make a RayJob. Everything is checked first: files, queue, cluster, priority class; nothing is left behind.

        Raises AlreadyExists, BadConfig, and NotFound where `cluster` is not there.
        """
        namespace = self._connection.resolve_namespace(config.namespace)
        secrets: list[Json] = []
        if config.working_dir is not None:
            excludes = config.runtime_env.excludes
            limit = PIECE * MOST_PIECES
            package = await asyncio.to_thread(pack, config.working_dir, excludes, limit=limit)
            ensure_script(config.entrypoint, package, config.working_dir)
            secrets = piece_secrets(config, namespace, package)
        queue, image = await self._check_references(config, namespace)
        await self._ensure_new(config.name, namespace)
        pieces = [secret["metadata"]["name"] for secret in secrets]
        manifest = ray_job(config, namespace, queue, pieces, image)
        if secrets:
            needed = [(verb, SECRET) for verb in ("create", "patch", "delete")]
            await self._connection.ensure_rights(namespace, *needed, ("create", RAY_JOB))
        # The files come first: a job without its files would wait for them for ever.
        objects: list[Json] = []
        try:
            for secret in secrets:
                objects.append(await self._connection.create(SECRET, secret))
            job = await self._connection.create(RAY_JOB, manifest)
        except ClusterError:
            for secret in objects:
                metadata = secret["metadata"]
                await self._connection.delete(SECRET, metadata["name"], namespace, uid=metadata["uid"])
            raise
        for secret in objects:
            await self._connection.patch(SECRET, secret["metadata"]["name"], owner_patch(job), namespace)
        return job_status(job)

    async def get(self, name: str, namespace: str | None = None) -> JobStatus:
        """Return a job, whichever program has made it. Raises NotFound."""
        return job_status(await self._connection.get(RAY_JOB, name, namespace))

    async def list(self, namespace: str | None = None, *, everywhere: bool = False) -> Sequence[JobStatus]:
        """Return all RayJobs, the oldest first: at most two requests, however many there are."""
        jobs = await self._connection.list(RAY_JOB, namespace, everywhere=everywhere)
        workloads: Sequence[WorkloadView] = ()
        if any(_in_queue(job) for job in jobs):
            workloads = await self._workloads(namespace, everywhere)
        now = datetime.now(UTC)
        statuses = [
            job_status(job, place=find_position(text(job, "metadata", "uid"), workloads, now)) for job in jobs
        ]
        return sorted(
            statuses, key=lambda status: (text(status.resource, "metadata", "creationTimestamp"), status.name)
        )

    async def status(self, name: str, namespace: str | None = None) -> JobStatus:
        """Return where the job stands, and why: at most three requests. Raises NotFound."""
        job = await self._connection.get(RAY_JOB, name, namespace)
        status = job_status(job)
        if _in_queue(job):
            views = await self._workloads(status.namespace, False)
            status = job_status(
                job, place=find_position(text(job, "metadata", "uid"), views, datetime.now(UTC))
            )
        labels = _labels_of_awaited_pods(status)
        if not labels:
            return status
        try:
            pods = await self._connection.list(POD, status.namespace, labels=labels)
        except Forbidden:
            return status
        return job_status(job, pods, status.place)

    async def wait(
        self,
        name: str,
        namespace: str | None = None,
        *,
        timeout: float | None = None,
        poll: float = POLL_SECONDS,
        patience: float = STUCK_SECONDS,
        on_change: Callable[[JobStatus], None] | None = None,
    ) -> JobStatus:
        """Return the status when the job has succeeded. `on_change` is called with each new status before that.

        Raises Failed as soon as it has failed, or when its Pods cannot start for `patience` seconds; WaitTimeout after
        `timeout` seconds; NotFound when it is deleted.
        """
        return await wait_for(
            lambda: self.status(name, namespace),
            done=lambda status: status.phase == "Succeeded",
            stuck=lambda status: status.stuck,
            failed=lambda status: status.phase in ("Failed", "Stopped"),
            timeout=timeout,
            poll=poll,
            patience=patience,
            on_change=on_change,
        )

    async def logs(
        self,
        name: str,
        namespace: str | None = None,
        *,
        follow: bool = False,
        tail: int | None = None,
        poll: float = POLL_SECONDS,
        patience: float = STUCK_SECONDS,
        on_change: Callable[[JobStatus], None] | None = None,
    ) -> AsyncIterator[str]:
        """Yield the lines of the job's output, from its submitter's Pod: no access to the dashboard is needed.

        With `follow` it waits for the job to start, goes on until it has ended, and connects again where the
        connection breaks; no line comes twice. `on_change` is called with each new status until the job has started.
        Raises NotFound, and Failed where the job's Pods cannot start for `patience` seconds.
        """
        where = self._connection.resolve_namespace(namespace)
        tails: dict[str, Tail] = {}
        while True:
            # Before the log: all that a finished job has written is then read below.
            if follow:
                status = await self._wait_for_start(name, where, poll, patience, on_change)
            else:
                status = await self.get(name, namespace)
            pods = await self._connection.list(POD, where, labels=f"{SUBMITTER_LABEL}={name}")
            for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
                log = tails.setdefault(pod["metadata"]["uid"], Tail(self._connection.api, pod))
                try:
                    async for line in log.lines(follow=follow and not status.finished, tail=tail):
                        yield line.text
                except (api.Unreachable, api.ServerTimeout, api.NotFound):
                    pass  # the connection broke, or the Pod is gone: the next round reads on
                except api.ApiError as error:
                    if error.status != 400:  # 400: the container has not started
                        raise translate_error(
                            error, "get", Kind("", "pods/log", "Pod"), pod["metadata"]["name"], where
                        ) from error
            if not follow or status.finished or status.phase == "Stopped":
                return
            tail = None
            await asyncio.sleep(poll)

    async def _wait_for_start(
        self,
        name: str,
        namespace: str,
        poll: float,
        patience: float,
        on_change: Callable[[JobStatus], None] | None,
    ) -> JobStatus:
        """Return the status once there may be a log. Raises Failed where there will be none."""
        return await wait_for(
            lambda: self.status(name, namespace),
            done=lambda status: status.phase not in ("Queued", "Starting"),
            stuck=lambda status: status.stuck,
            failed=lambda status: False,
            timeout=None,
            poll=poll,
            patience=patience,
            on_change=on_change,
        )

    async def stop(self, name: str, namespace: str | None = None) -> JobStatus:
        """End the job's run; `resubmit` starts it again. In a queue it loses its place. Raises BadConfig."""
        status = await self.get(name, namespace)
        if status.finished:
            raise BadConfig(name, [Fault("", f"has ended already ({status.phase})")])
        return await self._suspend(status, True)

    async def resubmit(
        self, name: str, namespace: str | None = None, *, new_name: str | None = None
    ) -> JobStatus:
        """Run a stopped job again, or a finished one as a new job called `new_name`, with the same specification."""
        status = await self.get(name, namespace)
        if new_name is None and status.phase in ("Stopped", "Queued"):
            return await self._suspend(status, False)
        if new_name is None:
            raise BadConfig(name, [Fault("new_name", f"is required: the job is {status.phase}")])
        old = status.resource
        metadata = {key: old["metadata"][key] for key in _KEPT if key in old["metadata"]}
        spec = {key: value for key, value in old["spec"].items() if key not in ("suspend", "jobId")}
        job = {
            "apiVersion": old["apiVersion"],
            "kind": "RayJob",
            "metadata": {**metadata, "name": new_name, "namespace": status.namespace},
            "spec": spec,
        }
        return job_status(await self._connection.create(RAY_JOB, job))

    async def delete(self, name: str, namespace: str | None = None) -> None:
        """Delete the job, the cluster that was made for it, and its files. Raises NotFound."""
        await self._connection.delete(RAY_JOB, name, namespace)

    def on(  # the ways to log in
        self,
        cluster: str | None = None,
        namespace: str | None = None,
        *,
        address: str | None = None,
        token: str | Callable[[], str] | None = None,
        own_login: bool = False,
        headers: Mapping[str, str] | None = None,
        verify_tls: bool = True,
    ) -> AsyncSubmissions:
        """Return the jobs of Ray's own API on a cluster that runs, or at the `address` of a dashboard.

        `token` and `headers` are for a dashboard behind a login of its own. `own_login` sends it the token with which
        this client logs in to Kubernetes, as Steelyard's login asks for, over https with a certificate that is known,
        or to this machine alone: whoever may change the cluster can lead it elsewhere. Redirections are not followed
        with a login. Nothing is asked yet.
        """

        async def find() -> str:
            return address or await self._dashboard(cluster or "", namespace)

        if (cluster is None) == (address is None):
            raise BadConfig("jobs.on", [Fault("cluster", "give either cluster, or address")])
        if own_login and token is not None:
            raise BadConfig("jobs.on", [Fault("token", "give either token, or own_login")])
        named = [name for name in headers or {} if name.lower() == "authorization"]
        if named and (own_login or token is not None):
            other = "own_login" if own_login else "token"
            raise BadConfig("jobs.on", [Fault("headers", f"give either the header {named[0]}, or {other}")])
        login = self._connection.api.bearer if own_login else None
        return AsyncSubmissions(Dashboard(find, token, login, dict(headers or {}), verify_tls))

    async def _dashboard(self, name: str, namespace: str | None) -> str:
        resource = await self._connection.get(RAY_CLUSTER, name, namespace)
        outside = await AsyncClusters(self._connection).dashboard(name, namespace)
        if outside is not None:
            return outside
        host = text(resource, "status", "head", "podIP")
        # Clusters of this machine have loopback addresses, which programs here reach.
        return f"http://{host}:{names.DASHBOARD_PORT}" if host.startswith("127.") else internal_url(resource)

    async def _ensure_new(self, name: str, namespace: str) -> None:
        """Raise AlreadyExists where the job is there: its files, which are made first, would be named as the cause."""
        try:
            await self._connection.get(RAY_JOB, name, namespace)
        except (NotFound, Forbidden):
            return
        raise AlreadyExists(
            f"there is a RayJob {name} in namespace {namespace} already", 409, "AlreadyExists"
        )

    async def _check_references(self, config: JobConfig, namespace: str) -> tuple[str | None, str]:
        """Return the queue to use, and the image of the cluster that the job names, once all that it names is there."""
        if config.cluster is not None:
            cluster = await self._connection.get(RAY_CLUSTER, config.cluster, namespace)
            return None, _head_image(cluster)
        if config.priority_class is not None:
            try:
                await self._connection.get(PRIORITY_CLASS, config.priority_class)
            except (NotFound, Unsupported) as error:
                raise BadConfig("JobConfig", [Fault("priority_class", str(error))]) from error
            except Forbidden:
                pass  # an account may not see classes, which have no namespace; Kueue checks the name itself
        queue = await choose_queue(self._connection, config.queue, config.queue_policy, namespace)
        if queue is not None and (faults := list(queue_job_faults(config))):
            raise BadConfig("JobConfig", faults)
        return queue, ""

    async def _suspend(self, status: JobStatus, suspend: bool) -> JobStatus:
        if await set_active(self._connection, status.resource, not suspend):
            return await self.status(status.name, status.namespace)
        patch: Json = {"spec": {"suspend": suspend}}
        return job_status(await self._connection.patch(RAY_JOB, status.name, patch, status.namespace))

    async def _workloads(self, namespace: str | None, everywhere: bool) -> Sequence[WorkloadView]:
        try:
            objects = await self._connection.list(WORKLOAD, namespace, everywhere=everywhere)
        except (Forbidden, Unsupported):
            return []
        return [WorkloadView(obj) for obj in objects]


class Jobs(Sync):
    """Ray jobs of a Kubernetes cluster."""

    submit = blocking(AsyncJobs.submit)
    get = blocking(AsyncJobs.get)
    list = blocking(AsyncJobs.list)
    status = blocking(AsyncJobs.status)
    wait = blocking(AsyncJobs.wait)
    logs = blocking_lines(AsyncJobs.logs)
    stop = blocking(AsyncJobs.stop)
    resubmit = blocking(AsyncJobs.resubmit)
    delete = blocking(AsyncJobs.delete)

    def on(  # the ways to log in
        self,
        cluster: str | None = None,
        namespace: str | None = None,
        *,
        address: str | None = None,
        token: str | Callable[[], str] | None = None,
        own_login: bool = False,
        headers: Mapping[str, str] | None = None,
        verify_tls: bool = True,
    ) -> Submissions:
        submissions = self._methods.on(
            cluster,
            namespace,
            address=address,
            token=token,
            own_login=own_login,
            headers=headers,
            verify_tls=verify_tls,
        )
        return Submissions(submissions, self._thread)

    on.__doc__ = AsyncJobs.on.__doc__


def _head_image(cluster: Json) -> str:
    containers = items(cluster, "spec", "headGroupSpec", "template", "spec", "containers")
    return text(containers[0], "image") if containers else ""


def _labels_of_awaited_pods(status: JobStatus) -> str:
    """Return the labels of the Pods that the job waits for: its cluster's, then its submitter's; empty for none."""
    if status.phase == "Starting" and status.cluster:
        return f"{names.CLUSTER}={status.cluster}"
    # KubeRay sets Running as soon as it has made the submitter; `jobStatus` is set once that Pod has reached Ray.
    submitting = status.phase == "Running" and not text(status.resource, "status", "jobStatus")
    return f"{SUBMITTER_LABEL}={status.name}" if submitting else ""


def _in_queue(job: Json) -> bool:
    waiting = job_status(job).phase in ("Queued", "Starting")
    return bool(read_labels(job).get(names.QUEUE)) and waiting
