"""A Job's rules about failed Pods and about success: `podFailurePolicy`, `backoffLimitPerIndex`, `successPolicy`.

Pure functions over a Job and its Pods, worded and decided as Kubernetes' Job controller does. `job.py`, `job_counts.py`
and `job_pods.py` ask them.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import is_deleting, read_annotations, read_conditions
from steelyard_kube.pods import (
    conditions_by_type,
    container_statuses,
    find_end,
    init_container_statuses,
    is_terminal,
    read_phase,
)
from steelyard_kube.times import parse_time
from steelyard_local_kubernetes.controllers.pods import is_active, is_true

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
MOST_INDEXES = 1_000_000
_ENDS = ("SuccessCriteriaMet", "FailureTarget", "Complete", "Failed")


@dataclass(frozen=True)
class Match:
    """Action of the rule of a podFailurePolicy that a failed Pod matches; empty where no rule matches."""

    action: str = ""
    message: str = ""  # why the Job fails, of FailJob

    @property
    def counts(self) -> bool:
        """Return whether the failure counts towards the backoff limits."""
        return self.action != "Ignore"


def is_over(job: Json) -> bool:
    """Return whether the Job's end is decided, or the Job itself is deleted: no Pod is worth waiting for."""
    return is_deleting(job) or any(is_true(job, kind) for kind in _ENDS)


def is_suspended(job: Json) -> bool:
    return bool(job["spec"].get("suspend"))


def is_indexed(job: Json) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def replaces_only_failed(job: Json) -> bool:
    """Return whether a Pod is replaced only once it has failed, and not while it still terminates."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def has_failed(pod: Json, job: Json) -> bool:
    """Return whether the Pod counts as a failure. A deleted one does at once, since it may never get to say more."""
    phase = read_phase(pod)
    if phase in ("Failed", "Succeeded") or not is_deleting(pod):
        return phase == "Failed"
    # The end of a Pod that no node ever had would never be reported.
    return not replaces_only_failed(job) or is_over(job) or not pod["spec"].get("nodeName")


def has_ended(pod: Json, job: Json) -> bool:
    """Return whether nothing more is to come of the Pod."""
    return is_terminal(pod) or has_failed(pod, job)


def failure_time(pod: Json) -> datetime | None:
    """Return when a failed Pod ended, as far as it says."""
    return _end_time(pod) if read_phase(pod) == "Failed" else None


def success_time(pod: Json) -> datetime | None:
    return _end_time(pod) if read_phase(pod) == "Succeeded" else None


def _end_time(pod: Json) -> datetime | None:
    ends = [
        ended["finishedAt"]
        for status in container_statuses(pod)
        if (ended := find_end(status)) and ended.get("finishedAt")
    ]
    ready = conditions_by_type(pod).get("Ready", {})
    if not ends and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        ends = [ready["lastTransitionTime"]]
    return parse_time(max(ends)) if ends else None


# ---- podFailurePolicy


def match_failure(job: Json, pod: Json) -> Match:
    """Return what the first matching rule of the Job's podFailurePolicy says about a failed Pod."""
    for number, rule in enumerate(sequence(job["spec"], "podFailurePolicy", "rules")):
        action = str(rule["action"])
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        text = f"matching {action} rule at index {number}"
        if codes := rule.get("onExitCodes"):
            if status := _with_exit_code(pod, codes):
                code = status["state"]["terminated"]["exitCode"]
                why = f"Container {status['name']} for pod {name} failed with exit code {code} {text}"
                return Match(action, why)
        elif condition := _with_condition(pod, sequence(rule, "onPodConditions")):
            return Match(action, f"Pod {name} has condition {condition['type']} {text}")
    return Match()


def _with_exit_code(pod: Json, codes: Json) -> Json | None:
    for status in (*container_statuses(pod), *init_container_statuses(pod)):
        ended, name = find_end(status), codes.get("containerName")
        if not ended or not ended.get("exitCode") or name not in (None, status["name"]):
            continue
        if (ended["exitCode"] in codes["values"]) == (codes["operator"] == "In"):
            return status
    return None


def _with_condition(pod: Json, patterns: list[Json]) -> Json | None:
    conditions = {(pattern["type"], pattern.get("status") or "True") for pattern in patterns}
    return next((said for said in read_conditions(pod) if (said["type"], said["status"]) in conditions), None)


def failure_of_the_job(job: Json, pods: Iterable[Json]) -> str | None:
    """Return the message with which a failed Pod fails the whole Job (FailJob)."""
    if not job["spec"].get("podFailurePolicy"):
        return None
    matches = (match_failure(job, pod) for pod in pods if has_failed(pod, job))
    return next((match.message for match in matches if match.action == "FailJob"), None)


# ---- backoffLimitPerIndex


def limit_per_index(job: Json) -> int | None:
    limit = job["spec"].get("backoffLimitPerIndex")
    return None if limit is None else int(limit)


def pod_index(pod: Json) -> int | None:
    return _number(pod, INDEX)


def failures_before(pod: Json) -> int:
    """Return how many Pods of its index had failed, ignored ones too, when the Pod was created."""
    return (_number(pod, FAILURES) or 0) + (_number(pod, IGNORED_FAILURES) or 0)


def failure_annotations(job: Json, replaced: Json | None) -> dict[str, str]:
    """Return the counts that the Pod which takes the place of `replaced` carries on."""
    failures, ignored = (
        (_number(replaced, FAILURES) or 0, _number(replaced, IGNORED_FAILURES) or 0) if replaced else (0, 0)
    )
    if replaced and match_failure(job, replaced).counts:
        failures += 1
    elif replaced:
        ignored += 1
    return {FAILURES: str(failures), **({IGNORED_FAILURES: str(ignored)} if ignored else {})}


def fails_its_index(job: Json, pod: Json) -> bool:
    """Return whether no other Pod follows this failed one in its index."""
    limit = limit_per_index(job)
    if limit is None or not has_failed(pod, job):
        return False
    match = match_failure(job, pod)
    return match.action == "FailIndex" or (match.counts and (_number(pod, FAILURES) or 0) >= limit)


def awaiting_replacement(
    job: Json, pods: Iterable[Json], tracked: Iterable[Json], done: Collection[int]
) -> dict[int, Json]:
    """Return by index the uncounted failed Pods from which their replacement learns how many failed before it.

    Such a Pod keeps its finalizer until the replacement is there: deleted earlier, its index would start again with
    a count of zero.
    """
    if limit_per_index(job) is None or is_over(job):
        return {}
    active = {pod_index(pod) for pod in pods if is_active(pod)}
    latest: dict[int, Json] = {}
    for pod in tracked:
        index = pod_index(pod)
        if index is None or index in active or index in done or not has_failed(pod, job):
            continue
        if index not in latest or failures_before(pod) >= failures_before(latest[index]):
            latest[index] = pod
    return latest


def _number(pod: Json, annotation: str) -> int | None:
    text = read_annotations(pod).get(annotation)
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


# ---- successPolicy


def success_rule(job: Json, indexes: Collection[int]) -> str | None:
    """Return the message of the first rule of the successPolicy that the succeeded indexes meet."""
    if not indexes:
        return None
    for number, rule in enumerate(sequence(mapping(job["spec"], "successPolicy"), "rules")):
        text, least = rule.get("succeededIndexes"), rule.get("succeededCount")
        required = (
            set(parse_indexes(text, below=job["spec"].get("completions"))) if text is not None else None
        )
        if required is not None and not required:
            continue
        succeeded = len(indexes) if required is None else len(required.intersection(indexes))
        all_of_them = required is not None and succeeded == len(required)
        if all_of_them or (least is not None and succeeded >= int(least)):
            return f"Matched rules at index {number}"
    return None


# ---- texts of indexes


def parse_indexes(text: str, *, below: int | None = None) -> list[int]:
    """Return `1,3-5` as numbers, without those from `below` on. ValueError for other texts, and for more numbers
    than Pods will ever have run here.
    """
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        start, end = int(first), int(last or first) + 1
        run = range(start, end if below is None else min(end, below))
        if len(numbers) + len(run) > MOST_INDEXES:
            raise ValueError(f"more than {MOST_INDEXES} completed indexes")
        numbers.extend(run)
    return numbers


def format_indexes(numbers: Iterable[int]) -> str:
    """Numbers as `1,3-5`; two in a row are written `1,2`."""
    return ",".join(_runs(numbers))


def _runs(numbers: Iterable[int]) -> Iterator[str]:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    for first, last in runs:
        joint = "," if last == first + 1 else "-"
        yield str(first) if first == last else f"{first}{joint}{last}"
