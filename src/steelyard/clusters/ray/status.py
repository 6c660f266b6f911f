"""Status of a Ray cluster: one object that says where it stands, why, and what it waits for. A pure function."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from steelyard.clusters.queues.view import QueuePosition
from steelyard.clusters.ray import names
from steelyard.clusters.reading import find_condition, items, number, parse_time, part, text
from steelyard_common.types import Json
from steelyard_kube.objects import read_labels

Phase = Literal["Queued", "Starting", "Ready", "Suspended", "Failed", "Deleting", "Unknown"]
STUCK = frozenset({
    "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError",
    "CrashLoopBackOff", "RunContainerError", "FailedCreate",
})  # fmt: skip
"""Reasons for which a Pod waits, and which do not go away by themselves."""
_NORMAL = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True)
class Problem:
    """Something that keeps a Pod, or the whole cluster, from running."""

    object: str
    reason: str
    message: str

    @property
    def stuck(self) -> bool:
        return self.reason in STUCK

    def __str__(self) -> str:
        said = f"{self.reason}: {self.message}" if self.message else self.reason
        return f"{self.object}: {said}"


@dataclass(frozen=True)
class ClusterStatus:
    """The status of a Ray cluster, for people and programs; `resource` is the whole object."""

    name: str
    namespace: str
    phase: Phase
    reason: str = ""
    message: str = ""
    workers: int = 0
    """Ready workers."""
    wanted: int = 0
    complete: bool = False
    """True if it is ready, and has the workers that its specification asks for now; with autoscaling at least those."""
    observed: bool = True
    """False while its controller may not have seen the newest specification."""
    problems: tuple[Problem, ...] = ()
    place: QueuePosition | None = None
    created: datetime | None = None
    resource: Json = field(default_factory=dict, repr=False)

    @property
    def ready(self) -> bool:
        return self.phase == "Ready"

    @property
    def failed(self) -> bool:
        return self.phase == "Failed"

    @property
    def stuck(self) -> bool:
        """Return whether it will not become ready by itself, although its status does not say that it failed."""
        return self.failed or (not self.complete and any(problem.stuck for problem in self.problems))

    @property
    def address(self) -> str:
        """The address for `ray.init` inside the cluster."""
        return f"ray://{names.head_service(self.name)}.{self.namespace}.svc:{names.CLIENT_PORT}"

    @property
    def estimated_start(self) -> datetime | None:
        return self.place.estimated_start if self.place else None

    def __str__(self) -> str:
        line = f"{self.name}: {self.phase}"
        if self.phase in ("Ready", "Starting"):
            line += f", {self.workers} of {self.wanted} workers"
        why = ": ".join(word for word in (self.reason, self.message) if word)
        return f"{line} ({why})" if why else line


def cluster_status(
    cluster: Json, pods: Sequence[Json] = (), events: Sequence[Json] = (), place: QueuePosition | None = None
) -> ClusterStatus:
    """Return the status of a RayCluster. `pods` and `events` are those of its namespace; others' are left out."""
    name, namespace = text(cluster, "metadata", "name"), text(cluster, "metadata", "namespace")
    own = [pod for pod in pods if read_labels(pod).get(names.CLUSTER) == name]
    phase, reason, message = _phase(cluster, place)
    complete = phase == "Ready" and _is_complete(cluster, own)
    problems = () if complete else tuple(_problems(cluster, own, events))
    if phase in ("Starting", "Ready") and problems:
        first = next((problem for problem in problems if problem.stuck), problems[0])
        reason, message = first.reason, f"{first.message} ({first.object})" if first.message else first.object
    return ClusterStatus(
        name=name,
        namespace=namespace,
        phase=phase,
        reason=reason,
        message=message,
        workers=_ready_workers(cluster),
        wanted=sum(_count_wanted(group) for group in _groups(cluster)),
        complete=complete,
        observed=_is_observed(cluster),
        problems=problems,
        place=place,
        created=parse_time(text(cluster, "metadata", "creationTimestamp")),
        resource=cluster,
    )


def needs_queue(cluster: Json) -> bool:
    """Return whether the cluster's place in a queue says where it stands."""
    return bool(read_labels(cluster).get(names.QUEUE)) and _state(cluster) != "ready"


def needs_pods(cluster: Json) -> bool:
    """Return whether the cluster's Pods say more than its own status."""
    phase = _phase(cluster, None)[0]
    return phase == "Starting" or (
        phase == "Ready" and not (_is_observed(cluster) and _is_complete(cluster, ()))
    )


def _phase(cluster: Json, place: QueuePosition | None) -> tuple[Phase, str, str]:  # noqa: PLR0911
    state, said = _state(cluster), text(cluster, "status", "reason")
    suspended = part(cluster, "spec").get("suspend") is True
    if text(cluster, "metadata", "deletionTimestamp"):
        return "Deleting", "", ""
    if place is not None and not place.admitted:
        return "Queued", "Pending", str(place)
    failure = find_condition(cluster, "RayClusterReplicaFailure") or {}
    if state in ("failed", "unhealthy") or failure.get("status") == "True":
        return "Failed", str(failure.get("reason") or "Failed"), str(failure.get("message") or said)
    if suspended or state == "suspended":
        if read_labels(cluster).get(names.QUEUE) and suspended:
            return "Queued", "Pending", f"waits for queue {read_labels(cluster)[names.QUEUE]}"
        return ("Suspended" if suspended else "Starting"), "", said
    if state == "ready":
        head = find_condition(cluster, "HeadPodReady") or {}
        if head.get("status") == "False":
            return "Starting", str(head.get("reason") or "HeadPodNotReady"), str(head.get("message") or "")
        return "Ready", "", ""
    if state in ("", "pending", "initializing"):
        return "Starting", "", said
    return "Unknown", state, f"the cluster's state is {text(cluster, 'status', 'state')!r}"


def _state(cluster: Json) -> str:
    return text(cluster, "status", "state").lower()


def _groups(cluster: Json) -> list[Json]:
    return items(cluster, "spec", "workerGroupSpecs")


def _count_wanted(group: Json, field: str = "replicas") -> int:
    """Return the number of Pods that a group should have, as KubeRay counts them."""
    if group.get("suspend") is True:
        return 0
    replicas, most = max(number(group, field), number(group, "minReplicas")), group.get("maxReplicas")
    if isinstance(most, int):
        replicas = min(replicas, most)
    return replicas * (number(group, "numOfHosts") or 1)


def _ready_workers(cluster: Json) -> int:
    ready = number(cluster, "status", "readyWorkerReplicas")
    if ready or _state(cluster) != "ready" or "conditions" in part(cluster, "status"):
        return ready
    # Early releases of KubeRay count only running workers; in a ready cluster all of those are ready.
    return number(cluster, "status", "availableWorkerReplicas")


def _is_observed(cluster: Json) -> bool:
    seen = number(cluster, "status", "observedGeneration")
    return not seen or seen >= number(cluster, "metadata", "generation")


def _is_complete(cluster: Json, pods: Sequence[Json]) -> bool:
    """Return whether a ready cluster has the workers that it should have: its state stays ready while they change."""
    groups, ready = _groups(cluster), _ready_workers(cluster)
    if part(cluster, "spec").get("enableInTreeAutoscaling") is True:
        return ready >= sum(_count_wanted(group, "minReplicas") for group in groups)
    if not pods or _is_observed(cluster):
        return ready == sum(_count_wanted(group) for group in groups)
    # KubeRay writes the generation only when something else of the status changes, too: its Pods are counted instead.
    live = [pod for pod in pods if _is_ready(pod) and not text(pod, "metadata", "deletionTimestamp")]
    count = Counter(read_labels(pod).get(names.GROUP) for pod in live)
    return all(count[text(group, "groupName")] == _count_wanted(group) for group in groups)


def _problems(cluster: Json, pods: Sequence[Json], events: Sequence[Json]) -> Iterator[Problem]:
    for pod in pods:
        yield from pod_problems(pod)
    name = text(cluster, "metadata", "name")
    known = {text(pod, "metadata", "name") for pod in pods}
    uids = {text(obj, "metadata", "uid") for obj in (cluster, *pods)}
    # Whether a Pod still waits for room is in its own condition, which is named above.
    scheduled = {
        text(pod, "metadata", "name")
        for pod in pods
        if text(pod, "spec", "nodeName") or find_condition(pod, "PodScheduled")
    }
    ready = {text(pod, "metadata", "name") for pod in pods if _is_ready(pod)}
    newest: dict[tuple[str, str], Problem] = {}
    for event in events:
        about, kind = text(event, "involvedObject", "name"), text(event, "involvedObject", "kind")
        ours = about in known - ready if kind == "Pod" else (kind, about) == ("RayCluster", name)
        reason = text(event, "reason")
        if reason == "FailedScheduling" and about in scheduled:
            continue
        if (uid := text(event, "involvedObject", "uid")) and uid not in uids:
            continue  # of an earlier cluster of this name, whose Pods had the same names
        if ours and text(event, "type") == "Warning":
            newest[about, reason] = Problem(f"{kind} {about}", reason, text(event, "message"))
    yield from newest.values()


def _is_ready(pod: Json) -> bool:
    return (find_condition(pod, "Ready") or {}).get("status") == "True"


def pod_problems(pod: Json) -> Iterator[Problem]:
    """Yield what keeps a Pod from running, in the words of its own status."""
    name = f"Pod {text(pod, 'metadata', 'name')}"
    for container in (
        *items(pod, "status", "initContainerStatuses"),
        *items(pod, "status", "containerStatuses"),
    ):
        waiting = part(container, "state", "waiting")
        reason = text(waiting, "reason")
        if reason in _NORMAL:
            continue
        message = text(waiting, "message")
        if "Image" in reason and text(container, "image") not in message:
            message = f"image {text(container, 'image')}" + (f": {message}" if message else "")
        if reason == "CrashLoopBackOff":
            last = part(container, "lastState", "terminated")
            message = f"container {text(container, 'name')} ended with exit code {text(last, 'exitCode')}"
        yield Problem(name, reason, message)
    scheduled = find_condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False":
        yield Problem(
            name, str(scheduled.get("reason") or "Unschedulable"), str(scheduled.get("message") or "")
        )
    if text(pod, "status", "phase") == "Failed":
        yield Problem(name, text(pod, "status", "reason") or "Failed", text(pod, "status", "message"))
