"""Views of a LocalQueue and of a Workload; both versions of Kueue's API read alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from steelyard.clusters.object_view import ObjectView
from steelyard.clusters.ray.names import DEFAULT_QUEUE
from steelyard.clusters.reading import find_condition, holds, items, number, parse_time, part, text
from steelyard_kube.objects import owner_references, read_annotations

MIN_ADMISSIONS = 3
"""Number of admissions from which on the time of the next one is estimated."""
MAX_ADMISSIONS = 10
"""Number of the newest admissions that the estimate counts."""


@dataclass(frozen=True, repr=False)
class QueueView(ObjectView):
    """A LocalQueue; `resource` is the whole object."""

    @property
    def cluster_queue(self) -> str:
        return text(self.resource, "spec", "clusterQueue")

    @property
    def default(self) -> bool:
        """Return whether jobs that name no queue go to this one."""
        return read_annotations(self.resource).get(DEFAULT_QUEUE) == "true" or self.name == "default"

    @property
    def stopped(self) -> str:
        """Reason why the queue admits nothing; empty if it admits."""
        policy = text(self.resource, "spec", "stopPolicy")
        if policy not in ("", "None"):
            return f"it is stopped ({policy})"
        active = find_condition(self.resource, "Active")
        if active is not None and active.get("status") == "False":
            return str(active.get("message") or active.get("reason") or "it is not active")
        return ""

    @property
    def pending(self) -> int:
        return number(self.resource, "status", "pendingWorkloads")

    @property
    def reserving(self) -> int:
        return number(self.resource, "status", "reservingWorkloads")

    @property
    def admitted(self) -> int:
        return number(self.resource, "status", "admittedWorkloads")

    @property
    def usage(self) -> Mapping[str, Mapping[str, str]]:
        """Usage by flavour and resource."""
        status = part(self.resource, "status")
        flavors = items(status, "flavorsUsage") or items(status, "flavorUsage")
        return {
            text(flavor, "name"): {
                text(entry, "name"): str(entry.get("total", "0")) for entry in items(flavor, "resources")
            }
            for flavor in flavors
        }


@dataclass(frozen=True)
class QueuePosition:
    """Position of a workload in its queue, and what it waits for."""

    queue: str
    workload: str
    position: int
    """1 for the next one; 0 once it is admitted."""
    pending: int
    message: str
    estimated_start: datetime | None = None
    """Estimate from the newest admissions of the queue; None where there were too few."""

    @property
    def admitted(self) -> bool:
        return self.position == 0

    def __str__(self) -> str:
        if self.admitted:
            return f"admitted from queue {self.queue}"
        waits = f": {self.message}" if self.message else ""
        return f"place {self.position} of {self.pending} in queue {self.queue}{waits}"


@dataclass(frozen=True, repr=False)
class WorkloadView(ObjectView):
    """A Workload: what Kueue admits as one; `resource` is the whole object."""

    @property
    def queue(self) -> str:
        return text(self.resource, "spec", "queueName")

    @property
    def priority(self) -> int:
        value = part(self.resource, "spec").get("priority")
        return value if isinstance(value, int) else 0

    @property
    def owner(self) -> str:
        """Kind and name of what it stands for, such as `RayCluster/demo`."""
        owners = owner_references(self.resource)
        chosen = next((owner for owner in owners if owner.get("controller")), owners[0] if owners else None)
        return f"{chosen.get('kind')}/{chosen.get('name')}" if chosen else ""

    @property
    def created(self) -> datetime | None:
        return parse_time(text(self.resource, "metadata", "creationTimestamp"))

    @property
    def admitted_at(self) -> datetime | None:
        condition = find_condition(self.resource, "Admitted")
        if condition is None or condition.get("status") != "True":
            return None
        return parse_time(str(condition.get("lastTransitionTime") or ""))

    @property
    def state(self) -> str:
        """Finished, Admitted, Reserved (quota is there, checks are not), Inactive or Pending."""
        if holds(self.resource, "Finished"):
            return "Finished"
        if holds(self.resource, "Admitted"):
            return "Admitted"
        if part(self.resource, "spec").get("active") is False:
            return "Inactive"
        return "Reserved" if holds(self.resource, "QuotaReserved") else "Pending"

    @property
    def why(self) -> str:
        """Reason why it waits, in Kueue's words."""
        # Without quota, the condition Admitted says only that there is none, and QuotaReserved says why.
        for type in ("QuotaReserved", "Admitted", "Evicted"):
            condition = find_condition(self.resource, type)
            unmet = condition is not None and (condition.get("status") == "True") == (type == "Evicted")
            if condition is not None and unmet and condition.get("message"):
                return str(condition["message"])
        for check in items(part(self.resource, "status"), "admissionChecks"):
            if check.get("state") != "Ready":
                return f"admission check {check.get('name')}: {check.get('message') or check.get('state')}"
        return "Kueue has not looked at it yet" if self.state == "Pending" else ""

    def stands_for(self, uid: str) -> bool:
        return any(owner.get("uid") == uid for owner in owner_references(self.resource))


def find_position(uid: str, workloads: Sequence[WorkloadView], now: datetime) -> QueuePosition | None:
    """Return the queue position of the job with this uid; None without a workload."""
    own = next((workload for workload in workloads if workload.stands_for(uid)), None)
    if own is None:
        return None
    if own.state in ("Admitted", "Finished"):
        return QueuePosition(own.queue, own.name, 0, 0, "")
    queue = [workload for workload in workloads if workload.queue == own.queue]
    waiting = sorted((workload for workload in queue if workload.state == "Pending"), key=_order)
    position = next((number for number, item in enumerate(waiting, 1) if item.name == own.name), 1)
    start = None if own.state == "Inactive" else _estimate(position, queue, now)
    return QueuePosition(own.queue, own.name, position, max(len(waiting), position), own.why, start)


def _order(workload: WorkloadView) -> tuple[int, str, str]:
    """Kueue's order: the highest priority first, then the oldest."""
    created = text(workload.resource, "metadata", "creationTimestamp")
    return -workload.priority, created, workload.name


def _estimate(position: int, queue: Sequence[WorkloadView], now: datetime) -> datetime | None:
    times = sorted(time for workload in queue if (time := workload.admitted_at) is not None)[-MAX_ADMISSIONS:]
    if len(times) < MIN_ADMISSIONS:
        return None
    pauses = [later - earlier for earlier, later in pairwise(times)]
    pause = median(pause.total_seconds() for pause in pauses)
    return max(now, times[-1] + timedelta(seconds=pause * position))
