"""What was observed of a resource's children, and what became of a Job.

Only children whose controller is the resource itself count, by uid: one that was made again must not inherit.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from steelyard.awake import pause_lasts
from steelyard.operator.conditions import parse_time
from steelyard.operator.names import OWNER, controller_of
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.times import later
from steelyard.schema.steps import EXIT_PERMANENT
from steelyard.types import Json

POD_GRACE = timedelta(seconds=5)
"""How long a failed Job's Pod may be missing from the cache before the Pod is taken for deleted."""
IMAGE_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})
DISRUPTIONS = frozenset({"Evicted", "Preempting", "NodeShutdown", "Terminated", "NodeLost", "NodeAffinity"})


@dataclass(frozen=True)
class Children:
    """The resource's own children of every kind, and the Pods below them."""

    objects: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    orphans: tuple[Json, ...] = ()
    """A training job's: what has its labels and is nobody's. It is adopted."""
    strays: tuple[Json, ...] = ()
    """A training job's: what it controls, and whose labels are no longer its. It is released."""

    def named(self, kind: str, name: str) -> Json | None:
        return next((each for each in self.of_kind(kind) if each["metadata"]["name"] == name), None)

    def of_kind(self, kind: str) -> tuple[Json, ...]:
        return tuple(each for each in self.objects if each["kind"] == kind)

    def pods_of(self, job: Json) -> tuple[Json, ...]:
        uid = job["metadata"]["uid"]
        return tuple(pod for pod in self.pods if (controller_of(pod) or {}).get("uid") == uid)


def observe(resource: Json, objects: Iterable[Json], pods: Iterable[Json]) -> Children:
    """Of all that was seen, what is the resource's own."""
    uid = resource["metadata"]["uid"]
    own = tuple(each for each in objects if (controller_of(each) or {}).get("uid") == uid)
    return Children(own, tuple(pod for pod in pods if pod["metadata"].get("labels", {}).get(OWNER) == uid))


def live(job: Json | None) -> tuple[Json, ...]:
    """The Job, if it has neither ended nor is being deleted."""
    if job is None or job["metadata"].get("deletionTimestamp"):
        return ()
    return () if _job_condition(job, "Complete") or _job_condition(job, "Failed") else (job,)


@dataclass(frozen=True)
class Outcome:
    """What became of a Job. `counted` failures use up an attempt; `permanent` ones end the step."""

    state: Literal["missing", "waiting", "running", "succeeded", "failed"]
    code: str = ""
    message: str = ""
    permanent: bool = False
    counted: bool = True
    look_again: datetime | None = None


def job_outcome(job: Json | None, children: Children, now: datetime, settings: OperatorSettings) -> Outcome:
    """What became of a Job, by its conditions and its Pods."""
    if job is None:
        return Outcome("missing")
    pods = children.pods_of(job)
    if done := _job_condition(job, "Complete"):
        return Outcome("succeeded", message=done.get("message", ""))
    if ended := _job_condition(job, "Failed"):
        return _failure(ended, pods, now)
    if job["metadata"].get("deletionTimestamp"):
        return Outcome("waiting", message=f"Job {job['metadata']['name']} is being deleted")
    for pod in pods:
        if outcome := _pod_trouble(pod, now, settings):
            return outcome
    return Outcome("running")


def _job_condition(job: Json, kind: str) -> Json | None:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)


def _failure(ended: Json, pods: Sequence[Json], now: datetime) -> Outcome:
    if ended.get("reason") == "DeadlineExceeded":
        return Outcome("failed", "Timeout", ended.get("message", ""), permanent=True)
    failures = [failure for pod in pods if (failure := _pod_failure(pod))]
    if failures:
        return failures[-1]
    since = parse_time(ended.get("lastTransitionTime") or "1970-01-01T00:00:00Z")
    if pause_lasts(since, POD_GRACE.total_seconds(), now):
        return Outcome(
            "waiting", look_again=since + POD_GRACE, message="the Pod of the failed Job is awaited"
        )
    return Outcome("failed", "Disrupted", "the Pod was deleted before it ended", counted=False)


def _pod_failure(pod: Json) -> Outcome | None:
    """Why a Pod failed; None if it did not, or not by itself."""
    status = pod.get("status") or {}
    reason = status.get("reason") or ""
    conditions = status.get("conditions") or ()
    disrupted = any(each["type"] == "DisruptionTarget" and each["status"] == "True" for each in conditions)
    if reason == "BoundToAllAddresses":
        return Outcome("failed", reason, status.get("message", ""), permanent=True)
    if disrupted or reason in DISRUPTIONS:
        return Outcome("failed", "Disrupted", status.get("message") or reason, counted=False)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        ended = (container.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            return _deleted(pod, ended) or _container_failure(ended)
    if status.get("phase") == "Failed":
        return Outcome("failed", reason, status.get("message", ""))
    return None


def _deleted(pod: Json, ended: Json) -> Outcome | None:
    """Ended because the Pod was deleted: by a signal, or in order on its own word."""
    told = ended["exitCode"] > 128 or last_words(ended)[0] == "Terminated"
    if not (pod["metadata"].get("deletionTimestamp") and told):
        return None
    return Outcome("failed", "Disrupted", "the Pod was deleted before it ended", counted=False)


def _container_failure(ended: Json) -> Outcome:
    if ended.get("reason") == "OOMKilled":
        return Outcome("failed", "OOMKilled", "the step used more memory than its limit", permanent=True)
    code, message = last_words(ended)
    message = message or f"the step exited {ended['exitCode']} without saying why"
    return Outcome("failed", code, message, permanent=ended["exitCode"] == EXIT_PERMANENT)


def last_words(ended: Json) -> tuple[str, str]:
    """Code and message of a termination message; what is not JSON is all message."""
    text = (ended.get("message") or "").strip()
    try:
        content = json.loads(text)
        code, message, row = str(content["code"]), str(content.get("message") or ""), content.get("row")
    except (ValueError, TypeError, KeyError):
        return "", text[-1024:]
    return code, f"{message} (row {row})" if row is not None and f"row {row}" not in message else message


def _pod_trouble(pod: Json, now: datetime, settings: OperatorSettings) -> Outcome | None:
    """What keeps a Pod of a running Job from running."""
    status = pod.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    ready = conditions.get("Ready")
    if ready and ready["status"] != "True" and ready.get("reason") in {"NodeNotReady", "NodeLost"}:
        since = parse_time(ready["lastTransitionTime"])
        lost = later(since, settings.node_lost_seconds + settings.sleeps.since(since))
        if now >= lost:
            return Outcome("failed", "NodeLost", "the Pod's node is lost", counted=False)
        return Outcome("running", message="the Pod's node does not answer", look_again=lost)
    if image := waiting_image(pod):
        created = parse_time(pod["metadata"]["creationTimestamp"])
        limit = later(created, settings.image_error_seconds + settings.sleeps.since(created))
        if now >= limit:
            return Outcome("failed", "BadImage", image, permanent=True)
        return Outcome("waiting", "BadImage", image, look_again=limit)
    scheduled = conditions.get("PodScheduled")
    if scheduled and scheduled["status"] == "False":
        return Outcome("waiting", "Unschedulable", scheduled.get("message", ""))
    return None


def waiting_image(pod: Json) -> str:
    """Why an image is missing; empty when none is."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in IMAGE_ERRORS:
            return f"{waiting['reason']}: {waiting.get('message') or container.get('image', '')}"
    return ""
