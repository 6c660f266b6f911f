"""Status of a RayJob: one object that says where it stands and why. A pure function."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from steelyard.clusters.queues.view import QueuePosition
from steelyard.clusters.ray import names
from steelyard.clusters.ray.status import Problem, pod_problems
from steelyard.clusters.reading import number, parse_time, part, text
from steelyard_common.types import Json
from steelyard_kube.objects import read_labels

JobPhase = Literal["Queued", "Starting", "Running", "Succeeded", "Failed", "Stopped", "Retrying", "Unknown"]
_STARTING = frozenset({"", "new", "initializing", "waiting", "scheduling", "scheduled"})


@dataclass(frozen=True)
class JobStatus:
    """The status of a RayJob; `resource` is the whole object."""

    name: str
    namespace: str
    phase: JobPhase
    reason: str = ""
    message: str = ""
    job_id: str = ""
    """Ray's own id of the run."""
    cluster: str = ""
    """Name of the RayCluster on which it runs, as KubeRay has called it."""
    started: datetime | None = None
    ended: datetime | None = None
    failed_attempts: int = 0
    problems: tuple[Problem, ...] = ()
    place: QueuePosition | None = None
    resource: Json = field(default_factory=dict, repr=False)

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def stuck(self) -> bool:
        return self.phase == "Starting" and any(problem.stuck for problem in self.problems)

    def __str__(self) -> str:
        why = ": ".join(word for word in (self.reason, self.message) if word)
        return f"{self.name}: {self.phase}" + (f" ({why})" if why else "")


def job_status(job: Json, pods: Sequence[Json] = (), place: QueuePosition | None = None) -> JobStatus:
    """Return the status of a RayJob; `pods` are those of its cluster and its submitter."""
    phase, reason, message = _phase(job, place)
    problems = tuple(problem for pod in pods for problem in pod_problems(pod))
    if phase == "Running" and any(problem.stuck for problem in problems):
        phase = "Starting"  # its submitter cannot start
    if phase == "Starting" and problems:
        first = next((problem for problem in problems if problem.stuck), problems[0])
        reason, message = first.reason, f"{first.message} ({first.object})"
    status = part(job, "status")
    return JobStatus(
        name=text(job, "metadata", "name"),
        namespace=text(job, "metadata", "namespace"),
        phase=phase,
        reason=reason,
        message=message,
        job_id=text(status, "jobId"),
        cluster=text(status, "rayClusterName"),
        started=parse_time(text(status, "startTime")),
        ended=parse_time(text(status, "endTime")),
        failed_attempts=number(status, "failed"),
        problems=problems,
        place=place,
        resource=job,
    )


def _phase(job: Json, place: QueuePosition | None) -> tuple[JobPhase, str, str]:  # noqa: PLR0911
    deployment, own = text(job, "status", "jobDeploymentStatus"), text(job, "status", "jobStatus")
    reason, message = text(job, "status", "reason"), text(job, "status", "message")
    if place is not None and not place.admitted:
        return "Queued", "Pending", str(place)
    suspended = part(job, "spec").get("suspend") is True
    match deployment.lower():
        case "complete":
            outcome: JobPhase = "Failed" if own in ("FAILED", "STOPPED") else "Succeeded"
            return outcome, reason, message
        case "failed" | "validationfailed":
            return "Failed", reason or deployment, message
        case "suspended" | "suspending" if part(job, "spec").get("suspend") is False:
            return "Starting", reason, message  # resumed; its controller has not seen it yet
        case "suspended" | "suspending":
            if read_labels(job).get(names.QUEUE):
                return "Queued", "Pending", f"waits for queue {read_labels(job)[names.QUEUE]}"
            return "Stopped", reason, message
        case "retrying":
            return "Retrying", reason, message
        case "running":
            return "Running", reason, message
        case word if word in _STARTING:
            queue = read_labels(job).get(names.QUEUE)
            if suspended and queue:
                return "Queued", "Pending", f"waits for queue {queue}"
            return ("Stopped" if suspended else "Starting"), reason, message
    return "Unknown", deployment, message or f"the job's state is {deployment!r}"
