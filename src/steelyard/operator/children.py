"""The children that were observed of a resource, and the outcome of a Job.

Only children whose controller is the resource itself count, by uid: a resource that was created again under the same
name must not inherit the children of its predecessor.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from steelyard.operator.names import OWNER
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.times import later
from steelyard_common.awake import pause_lasts
from steelyard_common.types import Json
from steelyard_kube.objects import controller_uid, is_deleting, read_labels, read_status, true_condition
from steelyard_kube.pods import all_container_statuses, conditions_by_type, find_end, waiting_state
from steelyard_kube.times import format_time, parse_time
from steelyard_schema.steps import EXIT_PERMANENT

NO_POD = "NoPod"
"""Code of a Job that has had no Pod for a while."""
NO_POD_SECONDS = 60.0
"""Pause between two looks at the events of such a Job."""
POD_GRACE = timedelta(seconds=5)
"""Time for which a failed Job's Pod may be missing from the cache before the Pod counts as deleted."""
IMAGE_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})
SHELL_SIGNAL = 128
"""Offset of exit codes: a program that signal N ended has the code 128 + N."""
DISRUPTIONS = frozenset({"Evicted", "Preempting", "NodeShutdown", "Terminated", "NodeLost", "NodeAffinity"})


@dataclass(frozen=True)
class Children:
    """A resource's own children of every kind, and the Pods below them."""

    objects: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    orphans: tuple[Json, ...] = ()
    """Objects that have a training job's labels and no controller; the job adopts them."""
    strays: tuple[Json, ...] = ()
    """Objects that a training job controls and that have lost its labels; the job releases them."""

    def find(self, kind: str, name: str) -> Json | None:
        return next((child for child in self.list_kind(kind) if child["metadata"]["name"] == name), None)

    def list_kind(self, kind: str) -> tuple[Json, ...]:
        return tuple(child for child in self.objects if child["kind"] == kind)

    def list_pods(self, job: Json) -> tuple[Json, ...]:
        """The Pods whose controller is a Job or a training job."""
        uid = job["metadata"]["uid"]
        return tuple(pod for pod in self.pods if controller_uid(pod) == uid)


def observe(resource: Json, objects: Iterable[Json], pods: Iterable[Json]) -> Children:
    """Select the resource's own children from the objects and Pods that a cache shows."""
    uid = resource["metadata"]["uid"]
    # By the owner's uid, not by labels, which anybody can set.
    own = tuple(child for child in objects if controller_uid(child) == uid)
    # A Pod of a Job has the owner's uid as a label only; one of another namespace has it from another user.
    namespace = resource["metadata"].get("namespace")
    return Children(
        own,
        tuple(
            pod
            for pod in pods
            if read_labels(pod).get(OWNER) == uid and pod["metadata"].get("namespace") == namespace
        ),
    )


def live(job: Json | None) -> tuple[Json, ...]:
    """The Job, or nothing if it has ended or is being deleted."""
    if job is None or is_deleting(job):
        return ()
    return () if true_condition(job, "Complete") or true_condition(job, "Failed") else (job,)


@dataclass(frozen=True)
class JobOutcome:
    """Result of a Job so far. `counted` failures use up an attempt; `permanent` ones end the step."""

    state: Literal["missing", "waiting", "running", "succeeded", "failed"]
    code: str = ""
    message: str = ""
    permanent: bool = False
    counted: bool = True
    requeue_at: datetime | None = None


def job_outcome(
    job: Json | None, children: Children, now: datetime, settings: OperatorSettings
) -> JobOutcome:
    """Conclude the outcome of a Job from its conditions and its Pods."""
    if job is None:
        return JobOutcome("missing")
    pods = children.list_pods(job)
    # The Job's own conditions come first: its Pods may be gone, or be those of an earlier attempt of the kubelet.
    if complete := true_condition(job, "Complete"):
        return JobOutcome("succeeded", message=complete.get("message", ""))
    if failed := true_condition(job, "Failed"):
        return _failure(failed, pods, now)
    # Its name is taken until it is gone; a new Job can only be created after that.
    if is_deleting(job):
        return JobOutcome("waiting", message=f"Job {job['metadata']['name']} is being deleted")
    for pod in pods:
        if outcome := _pod_trouble(pod, now, settings):
            return outcome
    if not pods and settings.step_pod_seconds:
        return without_pod(job, now, settings)
    return JobOutcome("running")


def without_pod(job: Json, now: datetime, settings: OperatorSettings) -> JobOutcome:
    """The outcome of a Job without a Pod: Kubernetes makes one at once, unless something of the cluster refuses it."""
    created = parse_time(job["metadata"].get("creationTimestamp") or format_time(now))
    due = later(created, settings.step_pod_seconds + settings.sleeps.since(created))
    if now < due:
        return JobOutcome("running", requeue_at=due)
    name = job["metadata"]["name"]
    again = later(now, NO_POD_SECONDS)
    return JobOutcome("waiting", NO_POD, f"Job {name} has no Pod yet", requeue_at=again)


def _failure(condition: Json, pods: Sequence[Json], now: datetime) -> JobOutcome:
    # Another attempt would have the same deadline, of which nothing is left.
    if condition.get("reason") == "DeadlineExceeded":
        return JobOutcome("failed", "Timeout", condition.get("message", ""), permanent=True)
    failures = [failure for pod in pods if (failure := _pod_failure(pod))]
    if failures:
        return failures[-1]
    # The cache of Pods may lag behind that of Jobs: a Pod that is missing may only not be shown yet.
    since = parse_time(condition.get("lastTransitionTime") or "1970-01-01T00:00:00Z")
    if pause_lasts(since, POD_GRACE.total_seconds(), now):
        return JobOutcome(
            "waiting", requeue_at=since + POD_GRACE, message="the Pod of the failed Job is awaited"
        )
    return JobOutcome("failed", "Disrupted", "the Pod was deleted before it ended", counted=False)


def _pod_failure(pod: Json) -> JobOutcome | None:
    """Conclude why a Pod failed; None if no container of it has failed."""
    status = read_status(pod)
    reason = status.get("reason") or ""
    # The embedded kubelet's check: a server that listens on all addresses would be open to the network. A repeat would
    # do the same.
    if reason == "BoundToAllAddresses":
        return JobOutcome("failed", reason, status.get("message", ""), permanent=True)
    # Evicted, preempted, or its node went: not the step's fault, so it uses up no attempt.
    if true_condition(pod, "DisruptionTarget") or reason in DISRUPTIONS:
        return JobOutcome("failed", "Disrupted", status.get("message") or reason, counted=False)
    for container in all_container_statuses(pod):
        terminated = find_end(container)
        if terminated and terminated.get("exitCode"):
            # A deleted Pod ends by a signal, or in its own orderly way; neither is the step's fault.
            stopped = (
                terminated["exitCode"] > SHELL_SIGNAL or termination_message(terminated)[0] == "Terminated"
            )
            if is_deleting(pod) and stopped:
                message = "the Pod was deleted before it ended"
                return JobOutcome("failed", "Disrupted", message, counted=False)
            return _container_failure(terminated)
    if status.get("phase") == "Failed":
        return JobOutcome("failed", reason, status.get("message", ""))
    return None


def _container_failure(terminated: Json) -> JobOutcome:
    # Another attempt would need the same memory.
    if terminated.get("reason") == "OOMKilled":
        return JobOutcome("failed", "OOMKilled", "the step used more memory than its limit", permanent=True)
    code, message = termination_message(terminated)
    message = message or f"the step exited with code {terminated['exitCode']} and gave no reason"
    return JobOutcome("failed", code, message, permanent=terminated["exitCode"] == EXIT_PERMANENT)


def termination_message(terminated: Json) -> tuple[str, str]:
    """Code and message of a container's termination message; text that is not JSON is all message."""
    text = (terminated.get("message") or "").strip()
    try:
        content = json.loads(text)
        code, message, row = str(content["code"]), str(content.get("message") or ""), content.get("row")
    except (ValueError, TypeError, KeyError):
        return "", text[-1024:]
    return code, f"{message} (row {row})" if row is not None and f"row {row}" not in message else message


def _pod_trouble(pod: Json, now: datetime, settings: OperatorSettings) -> JobOutcome | None:
    """The outcome so far of a Job whose Pod is kept from running: its node, its image, the scheduler."""
    conditions = conditions_by_type(pod)
    ready = conditions.get("Ready")
    if ready and ready["status"] != "True" and ready.get("reason") in {"NodeNotReady", "NodeLost"}:
        since = parse_time(ready["lastTransitionTime"])
        # Time that this machine slept does not count: after a lid was closed, every node seems silent.
        lost = later(since, settings.node_lost_seconds + settings.sleeps.since(since))
        if now >= lost:
            return JobOutcome("failed", "NodeLost", "the Pod's node is lost", counted=False)
        return JobOutcome("running", message="the Pod's node does not answer", requeue_at=lost)
    if image := waiting_image(pod):
        created = parse_time(pod["metadata"]["creationTimestamp"])
        # A registry that is away for a minute gives the same reasons as an image that does not exist.
        limit = later(created, settings.image_error_seconds + settings.sleeps.since(created))
        if now >= limit:
            return JobOutcome("failed", "BadImage", image, permanent=True)
        return JobOutcome("waiting", "BadImage", image, requeue_at=limit)
    scheduled = conditions.get("PodScheduled")
    # The message is the scheduler's, who alone knows which resource is short.
    if scheduled and scheduled["status"] == "False":
        return JobOutcome("waiting", "Unschedulable", scheduled.get("message", ""))
    return None


def waiting_image(pod: Json) -> str:
    """Reason and message of the first image that cannot be had; empty when there is none."""
    for container in all_container_statuses(pod):
        waiting = waiting_state(container)
        if waiting.get("reason") in IMAGE_ERRORS:
            return f"{waiting['reason']}: {waiting.get('message') or container.get('image', '')}"
    return ""
