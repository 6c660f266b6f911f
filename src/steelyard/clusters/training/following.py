"""A job followed until it has ended: its changes and what its replicas write, as they come."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from steelyard.clusters.names import JOB_NAME
from steelyard.clusters.training import jobs
from steelyard.clusters.training.errors import JobDeleted
from steelyard.clusters.training.logs import (
    Line,
    LogCluster,
    Tail,
    choose_pods,
    container_status,
    has_ended,
    has_started,
    list_lines,
)
from steelyard.clusters.training.view import JobView
from steelyard.clusters.training.watching import changes
from steelyard_common.types import Json
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.informer import Informer
from steelyard_kube.resource import EVENTS, PODS

WAITING = 2000
"""Lines read and not yet taken; beyond them reading waits."""
QUIET_SECONDS = 1.0
"""Seconds without a line after the end of a job, after which logs that are still open are left."""
RETRY_SECONDS = 0.2
WARNING_SECONDS = 2.0
"""Seconds between two requests for the events of a job that does not run."""
HELD = ("FailedCreate", "FrameworkMissing")
"""Prefixes of the reasons of events that say why a job does not run."""


@dataclass(frozen=True)
class Changed:
    """The job as it is now."""

    job: JobView


@dataclass(frozen=True)
class PodsChanged:
    """The job's Pods as they are now."""

    pods: tuple[Json, ...]


@dataclass(frozen=True)
class Warned:
    """A warning of the operator, such as that it could not make a Pod; it tries again."""

    message: str


Event = Changed | PodsChanged | Warned | Line


async def follow(
    cluster: LogCluster,
    job: JobView,
    *,
    replicas: Sequence[str] = (),
    tail: int | None = None,
    logs: bool = True,
) -> AsyncGenerator[Event, None]:
    """Yield events and lines until the job has ended and all is read; earlier lines come first, in the order of time.

    Without `logs`, only what becomes of the job and its Pods. Raises JobDeleted where the job is deleted meanwhile.
    """
    following = _Following(cluster, job, replicas, logs=logs)
    yield Changed(job)
    for line in await following.history(tail):
        yield line
    task = asyncio.ensure_future(following.run())
    try:
        async with aclosing(following.events()) as events:
            async for event in events:
                yield event
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Following:
    """Two watches and a stream of log lines for each Pod; all put events into one queue."""

    def __init__(self, cluster: LogCluster, job: JobView, replicas: Sequence[str], *, logs: bool) -> None:
        self._cluster, self._job, self._replicas, self._logs = cluster, job, replicas, logs
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()  # None: it has ended
        self._tails: dict[str, Tail] = {}  # by uid
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._pods: dict[str, Json] = {}
        self._changed = asyncio.Event()
        self._deleted = False

    async def history(self, tail: int | None) -> list[Line]:
        """Read the logs that exist before anything is followed."""
        if not self._logs:
            return []
        pods = choose_pods(await jobs.pods(self._cluster, self._job), self._replicas, self._job)
        self._tails = {pod["metadata"]["uid"]: Tail(self._cluster, pod) for pod in pods}
        return await list_lines(list(self._tails.values()), tail)

    async def events(self) -> AsyncGenerator[Event, None]:
        while (event := await self._queue.get()) is not None:
            yield event
        if self._deleted:
            raise JobDeleted(f"{self._job.name}: was deleted")

    async def run(self) -> None:
        """Run until the job has ended and its Pods' logs are read."""
        pods = Informer(
            self._cluster,
            PODS,
            namespace=self._job.namespace,
            label_selector=f"{JOB_NAME}={self._job.name}",
            on_change=self._on_pod,
        )
        ended = asyncio.ensure_future(self._watch_job())
        watches = [ended, asyncio.ensure_future(pods.run()), asyncio.ensure_future(self._look_for_warnings())]
        try:
            await ended
            await self._finish()
        finally:
            everything = [*watches, *self._streams.values()]
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
            self._queue.put_nowait(None)

    async def _watch_job(self) -> None:
        async with aclosing(changes(self._cluster, self._job)) as views:
            async for job in views:
                self._job = job
                self._queue.put_nowait(Changed(job))
                if job.finished:
                    return
        self._deleted = True

    async def _look_for_warnings(self) -> None:
        """Return why there are no Pods. Asked for now and then: a rare need does not justify a watch."""
        reported: set[str] = set()
        while True:
            await asyncio.sleep(WARNING_SECONDS)
            if self._job.state not in {"New", "Created", "Restarting"}:
                continue
            for message in await self._warnings():
                if message not in reported:
                    reported.add(message)
                    self._queue.put_nowait(Warned(message))

    async def _warnings(self) -> list[str]:
        """The operator's warnings since the job was created."""
        selector = f"involvedObject.uid={self._job.uid}"
        try:
            events = await self._cluster.list(EVENTS, self._job.namespace, field_selector=selector)
        except ApiError:
            return []  # they may not be read, or not now
        since = max(
            [str(condition.get("lastTransitionTime") or "") for condition in self._job.conditions], default=""
        )
        return [
            f"{event['reason']}: {event.get('message') or ''}"
            for event in events.items
            if str(event.get("reason")).startswith(HELD) and str(event.get("lastTimestamp") or "") >= since
        ]

    async def _finish(self) -> None:
        """The rest of the logs; a Pod that the watch has not reported yet is read, too."""
        try:
            for pod in await jobs.pods(self._cluster, self._job):
                self._on_pod(None, pod)
        except ApiError:
            pass  # gone with the job: what is read by now is all
        while any(not stream.done() for stream in self._streams.values()):
            before = self._read
            await asyncio.wait(self._streams.values(), timeout=QUIET_SECONDS)
            if self._read == before and self._queue.empty():
                return

    @property
    def _read(self) -> int:
        return sum(tail.read for tail in self._tails.values())

    def _on_pod(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._pods.pop(old["metadata"]["uid"] if old else "", None)
        elif jobs.owner(new) == self._job.uid:
            self._see(new)
        self._changed.set()
        self._changed = asyncio.Event()
        self._queue.put_nowait(PodsChanged(tuple(self._pods.values())))

    def _see(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        self._pods[uid] = pod
        if not self._logs or uid in self._streams or not choose_pods([pod], self._replicas, self._job):
            return
        tail = self._tails.setdefault(uid, Tail(self._cluster, pod))
        self._streams[uid] = asyncio.ensure_future(self._stream(uid, tail))

    async def _stream(self, uid: str, tail: Tail) -> None:
        """All that one Pod writes, over restarts of its container and of the server."""
        while (pod := self._pods.get(uid)) is not None:
            if not has_started(pod):
                await self._next_change()
                continue
            try:
                async for line in tail.lines(follow=True):
                    await self._put(line)
            except NotFound:
                return
            except ApiError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if has_ended(pod):
                return
            await self._wait_for_restart(uid, container_status(pod))

    async def _wait_for_restart(self, uid: str, before: Json) -> None:
        """The container's status has changed, the Pod is gone, or it is time to check again anyway."""
        for _ in range(10):
            pod = self._pods.get(uid)
            if pod is None or container_status(pod) != before:
                return
            await self._next_change()

    async def _put(self, line: Line) -> None:
        while self._queue.qsize() > WAITING:  # noqa: ASYNC110 - a queue with a bound would hold up the watches
            await asyncio.sleep(0.01)
        self._queue.put_nowait(line)

    async def _next_change(self) -> None:
        """Wait for a change of any Pod, or for a moment, since some changes have no watch event."""
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return
