"""Counts a Job's Pods exactly: each Pod's end counts once, by its uid, whatever is restarted or deleted between.

As on a cluster, a Pod of a Job carries a finalizer. Its end goes first into `status.uncountedTerminatedPods`, then
its finalizer goes, then the uid moves from that list into the count. Whichever write is the last one before a crash,
the next sync sees from status and Pods alone what remains. An Indexed Job's successes need no list: they are a set
of indexes. `job.decide` is the only caller.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_conditions, read_finalizers, read_status
from steelyard_kube.pods import read_phase
from steelyard_local_kubernetes.controllers import job_policies as policies
from steelyard_local_kubernetes.controllers.decision import seconds_until
from steelyard_local_kubernetes.controllers.job_policies import (
    format_indexes,
    is_indexed,
    parse_indexes,
    pod_index,
)

FINALIZER = "batch.kubernetes.io/job-tracking"
READINESS_SECONDS = 1.0  # in which a status may lag that would only report how many Pods are ready


@dataclass(frozen=True)
class Counts:
    """Numbers of Pods by how they ended, those not yet in the status included."""

    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    indexes: frozenset[int]  # completed ones, of an Indexed Job
    release: tuple[Json, ...]  # Pods whose finalizer may go once the status above is written
    failed_indexes: frozenset[int] | None = None  # None: the Job has no backoffLimitPerIndex
    replaceable: Mapping[int, Json] = field(default_factory=dict)  # by index, failed Pods to be replaced

    @property
    def settled(self) -> bool:
        """Every ended Pod is in the numbers and free to go."""
        return not (self.uncounted_succeeded or self.uncounted_failed or self.release)

    def status(self, *, indexed: bool) -> Json:
        """The counts as fields of a Job's status; zeros and empty lists are left out, as a server leaves them."""
        succeeded = self.succeeded - len(self.uncounted_succeeded)
        # A Pod that waits for its replacement has failed, but is counted together with its release.
        fields: Json = {"succeeded": succeeded, "failed": self.failed - len(self.uncounted_failed)}
        uncounted = {"succeeded": list(self.uncounted_succeeded), "failed": list(self.uncounted_failed)}
        fields["uncountedTerminatedPods"] = {key: uids for key, uids in uncounted.items() if uids}
        if indexed:
            fields["completedIndexes"] = format_indexes(self.indexes)
        shown = {key: value for key, value in fields.items() if value or key == "uncountedTerminatedPods"}
        if self.failed_indexes is not None:
            shown["failedIndexes"] = format_indexes(self.failed_indexes)
        return shown


def count(job: Json, pods: Iterable[Json]) -> Counts:
    """Counts from the status as stored and the Pods as stored; the Pods must have been read after the Job."""
    status = read_status(job)
    stored = mapping(status, "uncountedTerminatedPods")
    indexed = is_indexed(job)
    pods = list(pods)
    tracked = {pod["metadata"]["uid"]: pod for pod in pods if is_tracked(pod)}
    succeeded = int(status.get("succeeded") or 0)
    failed = int(status.get("failed") or 0)
    indexes = _list_succeeded(job, tracked.values()) if indexed else frozenset()
    failed_indexes = _list_failed(job, tracked.values())
    valid = [pod for pod in tracked.values() if _has_index(job, pod)]
    waiting = policies.awaiting_replacement(job, pods, valid, indexes | (failed_indexes or frozenset()))
    # A listed uid whose Pod has lost its finalizer moves into the number; one that still has it stays listed.
    listed = {
        how: [uid for uid in sequence(stored, how) if uid in tracked] for how in ("succeeded", "failed")
    }
    succeeded += len(sequence(stored, "succeeded"))
    failed += len(sequence(stored, "failed"))
    known = {*listed["succeeded"], *listed["failed"]}
    release = []
    for uid, pod in sorted(tracked.items()):
        end = _end(job, pod)
        if end is None or (end == "failed" and waiting.get(_index(pod)) is pod):
            continue
        release.append(pod)
        if uid in known or (indexed and (end == "succeeded" or not _has_index(job, pod))):
            continue
        if end == "failed" and not policies.match_failure(job, pod).counts:
            continue
        listed[end].append(uid)
        succeeded, failed = succeeded + (end == "succeeded"), failed + (end == "failed")
    if indexed:
        succeeded = len(indexes)
    return Counts(
        succeeded,
        failed,
        tuple(listed["succeeded"]),
        tuple(listed["failed"]),
        indexes,
        tuple(release),
        failed_indexes,
        waiting,
    )


def _end(job: Json, pod: Json) -> str | None:
    if read_phase(pod) == "Succeeded":
        return "succeeded"
    return "failed" if policies.has_failed(pod, job) else None


def _index(pod: Json) -> int:
    index = pod_index(pod)
    return -1 if index is None else index


def _has_index(job: Json, pod: Json) -> bool:
    return 0 <= _index(pod) < (completions(job) or 0)


def _list_succeeded(job: Json, pods: Iterable[Json]) -> frozenset[int]:
    before = parse_indexes(read_status(job).get("completedIndexes") or "", below=completions(job))
    now = (_index(pod) for pod in pods if read_phase(pod) == "Succeeded" and _has_index(job, pod))
    return frozenset({*before, *now})


def _list_failed(job: Json, pods: Iterable[Json]) -> frozenset[int] | None:
    if policies.limit_per_index(job) is None or not is_indexed(job):
        return None
    before = parse_indexes(read_status(job).get("failedIndexes") or "", below=completions(job))
    # Pods that are ended because the Job is over did not fail their index.
    now = () if policies.is_over(job) else (pod for pod in pods if policies.fails_its_index(job, pod))
    return frozenset({*before, *(_index(pod) for pod in now if _has_index(job, pod))})


def readiness_delay(job: Json, status: Json, active: list[Json], now: datetime) -> float | None:
    """Seconds for which a status can wait if only its number of ready Pods is new; None: it cannot wait.

    A cluster waits, too: for a Pod that has ended by then, one write is enough.
    """
    stored = read_status(job)
    changes = abs(int(status.get("ready") or 0) - int(stored.get("ready") or 0))
    if not changes or {**status, "ready": 0} != {**stored, "ready": 0}:
        return None
    newest = sorted(
        (condition["lastTransitionTime"] for pod in active for condition in read_conditions(pod)
         if condition.get("type") == "Ready" and condition.get("lastTransitionTime")),
        reverse=True,
    )[:changes]  # fmt: skip
    # The oldest change that the status does not have yet counts: otherwise steady changes would delay it for ever.
    left = seconds_until(newest[-1], READINESS_SECONDS, now) if newest else 0.0
    return left if 0 < left <= READINESS_SECONDS else None


def is_tracked(pod: Json) -> bool:
    """Return whether the Pod's end is still to be counted."""
    return FINALIZER in read_finalizers(pod)


def without_finalizer(pod: Json) -> Json:
    rest = [finalizer for finalizer in read_finalizers(pod) if finalizer != FINALIZER]
    # With the version that was read, so that a finalizer added meanwhile is not lost.
    return {"metadata": {"finalizers": rest, "resourceVersion": pod["metadata"]["resourceVersion"]}}


def completions(job: Json) -> int | None:
    """Return how many Pods must succeed; None for a work queue, whose Pods know themselves when all is done."""
    number = job["spec"].get("completions")
    return 1 if number is None and job["spec"].get("parallelism") is None else number
