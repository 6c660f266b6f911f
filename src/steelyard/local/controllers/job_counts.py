"""Counts a Job's Pods exactly: each Pod's end counts once, by its uid, whatever is restarted or deleted between.

As on a cluster, a Pod of a Job carries a finalizer. Its end goes first into `status.uncountedTerminatedPods`, then
its finalizer goes, then the uid moves from that list into the count. Whichever write is the last one before a crash,
the next sync sees from status and Pods alone what remains. An Indexed Job's successes need no list: they are a set
of indexes. `job.decide` is the only caller.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.kube.objects import annotations_of, finalizers_of, is_deleting, status_of
from steelyard.kube.pods import phase_of
from steelyard.types import Json, mapping, sequence

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
MOST_INDEXES = 1_000_000


@dataclass(frozen=True)
class Counts:
    """Numbers of Pods by how they ended, those not yet in the status included."""

    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    indexes: frozenset[int]  # completed ones, of an Indexed Job
    release: tuple[Json, ...]  # Pods whose finalizer may go once the status above is written

    @property
    def settled(self) -> bool:
        """Every ended Pod is in the numbers and free to go."""
        return not (self.uncounted_succeeded or self.uncounted_failed or self.release)

    def status(self, *, indexed: bool) -> Json:
        """The counts as fields of a Job's status; zeros and empty lists are left out, as a server leaves them."""
        succeeded = self.succeeded - len(self.uncounted_succeeded)
        fields: Json = {"succeeded": succeeded, "failed": self.failed - len(self.uncounted_failed)}
        uncounted = {"succeeded": list(self.uncounted_succeeded), "failed": list(self.uncounted_failed)}
        fields["uncountedTerminatedPods"] = {key: uids for key, uids in uncounted.items() if uids}
        if indexed:
            fields["completedIndexes"] = format_indexes(self.indexes)
        return {key: value for key, value in fields.items() if value or key == "uncountedTerminatedPods"}


def count(job: Json, pods: Iterable[Json]) -> Counts:
    """Counts from the status as stored and the Pods as stored; the Pods must have been read after the Job."""
    status = status_of(job)
    stored = mapping(status, "uncountedTerminatedPods")
    indexed = is_indexed(job)
    tracked = {pod["metadata"]["uid"]: pod for pod in pods if FINALIZER in finalizers_of(pod)}
    succeeded = int(status.get("succeeded") or 0)
    failed = int(status.get("failed") or 0)
    indexes = set(parse_indexes(status.get("completedIndexes") or ""))
    # A listed uid whose Pod has lost its finalizer moves into the number; one that still has it stays listed.
    listed = {
        how: [uid for uid in sequence(stored, how) if uid in tracked] for how in ("succeeded", "failed")
    }
    succeeded += len(sequence(stored, "succeeded"))
    failed += len(sequence(stored, "failed"))
    known = {*listed["succeeded"], *listed["failed"]}
    release = []
    for uid, pod in sorted(tracked.items()):
        # A Pod that is being deleted counts as failed at once, unless it had succeeded: it may never get to
        # say more.
        end = None
        if phase_of(pod) == "Succeeded":
            end = "succeeded"
        elif phase_of(pod) == "Failed" or is_deleting(pod):
            end = "failed"
        if end is None:
            continue
        release.append(pod)
        if uid in known:
            continue
        if indexed and end == "succeeded":
            index = index_of(pod)
            if index is not None and index < (completions(job) or 0):
                indexes.add(index)
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
        frozenset(indexes),
        tuple(release),
    )


def without_finalizer(pod: Json) -> Json:
    rest = [finalizer for finalizer in finalizers_of(pod) if finalizer != FINALIZER]
    # With the version that was read, so that a finalizer added meanwhile is not lost.
    return {"metadata": {"finalizers": rest, "resourceVersion": pod["metadata"]["resourceVersion"]}}


def is_indexed(job: Json) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def completions(job: Json) -> int | None:
    """Return how many Pods must succeed; None for a work queue, whose Pods know themselves when all is done."""
    wanted = job["spec"].get("completions")
    return 1 if wanted is None and job["spec"].get("parallelism") is None else wanted


def index_of(pod: Json) -> int | None:
    text = annotations_of(pod).get(INDEX)
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


def parse_indexes(text: str) -> list[int]:
    """`1,3-5` as numbers. ValueError for other texts, and for more numbers than Pods will ever have run here."""
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        run = range(int(first), int(last or first) + 1)
        if len(numbers) + len(run) > MOST_INDEXES:
            raise ValueError(f"more than {MOST_INDEXES} completed indexes")
        numbers.extend(run)
    return numbers


def format_indexes(numbers: Iterable[int]) -> str:
    """Numbers as `1,3-5`; two in a row are written `1,2`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)
