"""Logs of a job's replicas: lines of many Pods in the order of their times."""

import heapq
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from steelyard.clusters.names import ATTEMPT, REPLICA_INDEX, REPLICA_TYPE
from steelyard.clusters.training.frameworks import KNOWN
from steelyard.clusters.training.view import JobView
from steelyard_common.types import Json, mapping
from steelyard_kube.cluster import Cluster, LogLine, PodLogs
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.objects import read_annotations, read_labels
from steelyard_kube.pods import container_statuses, is_terminal

MAIN = frozenset({*(framework.container for framework in KNOWN), "mpi"})
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class LogCluster(Cluster, PodLogs, Protocol):
    """A cluster whose Pods' logs can be read."""


@dataclass(frozen=True)
class Line:
    """One line of one replica."""

    replica: str
    attempt: int
    time: str
    text: str


def find_replica(pod: Json) -> tuple[str, int]:
    """`worker-0`, and which attempt of it the Pod is."""
    labels = read_labels(pod)
    attempt = str(labels.get(ATTEMPT, "0"))
    name = f"{labels.get(REPLICA_TYPE, 'pod')}-{labels.get(REPLICA_INDEX, '0')}"
    return name, int(attempt) if attempt.isdecimal() else 0


def main_container(pod: Json) -> str:
    """The container that trains."""
    names = [str(container["name"]) for container in pod["spec"]["containers"]]
    chosen = read_annotations(pod).get(DEFAULT_CONTAINER)
    return next((name for name in names if name == chosen or (not chosen and name in MAIN)), names[0])


def container_status(pod: Json) -> Json:
    """Return the status of the main container; empty before there is one."""
    name = main_container(pod)
    statuses = container_statuses(pod)
    return next((status for status in statuses if status["name"] == name), {})


def has_started(pod: Json) -> bool:
    """Return whether there is a log to read."""
    status = container_status(pod)
    state = mapping(status, "state")
    return "running" in state or "terminated" in state or bool(status.get("restartCount"))


def has_ended(pod: Json) -> bool:
    """Return whether nothing more will be written."""
    return is_terminal(pod)


class Tail:
    """The log of one Pod, read on from where it was left."""

    def __init__(self, logs: PodLogs, pod: Json) -> None:
        self._logs, self.pod = logs, pod
        self.replica, self.attempt = find_replica(pod)
        self.read = 0  # lines so far
        self._last, self._same = "", 0  # the newest time, and how many lines have had it

    async def lines(self, *, follow: bool, tail: int | None = None) -> AsyncIterator[Line]:
        """Lines not yet seen. A time may come again, at a restart of the stream: then they are counted."""
        since, skip = self._last, self._same
        metadata = self.pod["metadata"]
        entries = self._logs.logs(
            metadata["name"],
            metadata["namespace"],
            container=main_container(self.pod),
            follow=follow,
            since=since,
            tail=tail,
        )
        async for entry in entries:
            if entry.time < since:
                continue
            if entry.time == since and skip:
                skip -= 1
                continue
            yield self._note(entry)

    def _note(self, line: LogLine) -> Line:
        self._same = self._same + 1 if line.time == self._last else 1
        self._last = line.time
        self.read += 1
        return Line(self.replica, self.attempt, line.time, line.text)


async def previous(logs: PodLogs, pod: Json) -> list[Line]:
    """Return the lines that the container wrote before its last restart in place."""
    if not container_status(pod).get("restartCount"):
        return []
    replica, attempt = find_replica(pod)
    metadata = pod["metadata"]
    try:
        entries = logs.logs(
            metadata["name"], metadata["namespace"], container=main_container(pod), previous=True
        )
        return [Line(replica, attempt, entry.time, entry.text) async for entry in entries]
    except ApiError:
        return []  # kept no more


async def list_lines(tails: Sequence[Tail], tail: int | None = None) -> list[Line]:
    """Return the lines so far, in the order of time; Pods that have not started or are gone are left out."""
    return list(heapq.merge(*[await _whole(log, tail) for log in tails], key=lambda line: line.time))


async def _whole(tail: Tail, last: int | None) -> list[Line]:
    try:
        return [line async for line in tail.lines(follow=False, tail=last)]
    except NotFound:
        return []
    except ApiError as error:
        if error.status == 400:  # waiting to start
            return []
        raise


def choose_pods(pods: Sequence[Json], replicas: Sequence[str], job: JobView) -> list[Json]:
    """The Pods of the replicas named: `worker-0`, or `worker` for all of a type."""
    names = [name.lower().removeprefix(f"{job.name}-") for name in replicas]
    if not names:
        return list(pods)
    named = [(pod, find_replica(pod)[0]) for pod in pods]
    return [pod for pod, name in named if name in names or name.rpartition("-")[0] in names]
