"""Decides everything about queues: one pure function from the observed state to the writes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import controller_uid, is_deleting, read_labels, read_status
from steelyard_local_kubernetes.controllers.pods import matches
from steelyard_local_kubernetes.controllers.queued_kinds import is_queued
from steelyard_local_kubernetes.queues import conditions
from steelyard_local_kubernetes.queues.cohorts import Quota, quotas
from steelyard_local_kubernetes.queues.conditions import EVICTED, FINISHED, RESERVED, holds
from steelyard_local_kubernetes.queues.counts import cluster_queue_counts, local_queue_counts
from steelyard_local_kubernetes.queues.quota import fit, workload_usage
from steelyard_local_kubernetes.queues.workloads import queue_time, sync_job, workload_priority


@dataclass(frozen=True)
class Snapshot:
    """All objects that admission depends on, as stored at one time."""

    jobs: tuple[Json, ...] = ()
    workloads: tuple[Json, ...] = ()
    local_queues: tuple[Json, ...] = ()
    cluster_queues: tuple[Json, ...] = ()
    cohorts: tuple[Json, ...] = ()
    flavors: tuple[Json, ...] = ()
    priority_classes: tuple[Json, ...] = ()
    namespaces: tuple[Json, ...] = ()


@dataclass
class Plan:
    """Writes, in the order in which they are made: a status before what follows from it."""

    statuses: list[tuple[Json, Json]] = field(default_factory=list)  # an object and its new status
    creates: list[Json] = field(default_factory=list)
    deletes: list[Json] = field(default_factory=list)
    patches: list[tuple[Json, Json]] = field(default_factory=list)  # an object and its merge patch

    def __bool__(self) -> bool:
        return bool(self.statuses or self.creates or self.deletes or self.patches)


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide the writes of this round. The next round sees what follows from it."""
    result = Plan()
    workloads = {workload["metadata"]["uid"]: workload for workload in snapshot.workloads}
    _sync_jobs(snapshot, workloads, result, now)
    removed = {workload["metadata"]["uid"] for workload in result.deletes}
    present = [obj for uid, obj in workloads.items() if uid not in removed and not is_deleting(obj)]
    queues = Queues(snapshot)
    present = [queues.stop(workload, now) for workload in present]
    present = _admit(present, queues, now)
    for workload in present:
        before = next(
            obj for obj in snapshot.workloads if obj["metadata"]["uid"] == workload["metadata"]["uid"]
        )
        if read_status(workload) != read_status(before):
            result.statuses.append((before, read_status(workload)))
    for queue in snapshot.cluster_queues:
        fault = queues.fault(queue["metadata"]["name"])
        status = cluster_queue_counts(queue, present, queues.resolve, fault, now)
        if status != read_status(queue):
            result.statuses.append((queue, status))
    for queue in snapshot.local_queues:
        name = queue["spec"].get("clusterQueue", "")
        status = local_queue_counts(queue, present, queues.fault(name), now)
        status["flavors"] = queues.flavors(name)
        if status != read_status(queue):
            result.statuses.append((queue, status))
    return result


def _sync_jobs(snapshot: Snapshot, workloads: dict[str, Json], result: Plan, now: datetime) -> None:
    owned = {controller_uid(workload): workload for workload in workloads.values()}
    classes = {obj["metadata"]["name"]: int(obj.get("value") or 0) for obj in snapshot.priority_classes}
    for job in snapshot.jobs:
        if not is_queued(job):
            continue
        workload = owned.get(job["metadata"]["uid"])
        step = sync_job(job, workload, classes, now)
        if step.create:
            result.creates.append(step.create)
        if step.delete:
            result.deletes.append(step.delete)
        if step.patch_job:
            result.patches.append((job, step.patch_job))
        if workload is None:
            continue
        if step.patch_workload:
            result.patches.append((workload, step.patch_workload))
        elif step.status:
            workloads[workload["metadata"]["uid"]] = {**workload, "status": step.status}


class Queues:
    """The queues of a snapshot, by name, and what is wrong with them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.local = {
            (queue["metadata"]["namespace"], queue["metadata"]["name"]): queue
            for queue in snapshot.local_queues
        }
        self.cluster = {queue["metadata"]["name"]: queue for queue in snapshot.cluster_queues}
        self.quotas = quotas(snapshot.cluster_queues, snapshot.cohorts)
        self._flavors = {flavor["metadata"]["name"]: flavor for flavor in snapshot.flavors}
        self._namespaces = {
            namespace["metadata"]["name"]: read_labels(namespace) for namespace in snapshot.namespaces
        }

    def find_queue(self, workload: Json) -> Json | None:
        """Return the LocalQueue of a workload."""
        return self.local.get((workload["metadata"]["namespace"], workload["spec"].get("queueName", "")))

    def resolve(self, workload: Json) -> str:
        """Return the name of the ClusterQueue that a workload stands in, or nothing."""
        if name := mapping(workload, "status", "admission").get("clusterQueue"):
            return str(name)
        local = self.find_queue(workload)
        return str(local["spec"].get("clusterQueue", "")) if local else ""

    def fault(self, name: str) -> tuple[str, str]:
        """Return the reason and message why a ClusterQueue admits nothing; empty where it does."""
        queue = self.cluster.get(name)
        if queue is None:
            return "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
        named = {f["name"] for group in sequence(queue["spec"], "resourceGroups") for f in group["flavors"]}
        if missing := sorted(named - self._flavors.keys()):
            listed = ",".join(missing)
            message = f"Can't admit new workloads: references missing ResourceFlavor(s): {listed}."
            return "FlavorNotFound", message
        if self.quotas[name].in_cycle():
            return "CohortCycle", "Can't admit new workloads: a cohort above it is its own parent."
        if queue["spec"].get("stopPolicy", "None") != "None":
            return "Stopped", "Can't admit new workloads: is stopped."
        return "", ""

    def flavors(self, name: str) -> list[Json]:
        """Return the flavours of a ClusterQueue, each with its resources and its nodes' labels and taints.

        Clients choose a LocalQueue by them: its users may not be allowed to read the ClusterQueue.
        """
        groups = sequence(self.cluster[name]["spec"], "resourceGroups") if name in self.cluster else ()
        return [
            {"name": flavor["name"], "resources": [limit["name"] for limit in flavor["resources"]]}
            | {
                key: value
                for key in ("nodeLabels", "nodeTaints")
                if (value := mapping(self._flavors.get(flavor["name"], {}), "spec").get(key))
            }
            for group in groups
            for flavor in group["flavors"]
        ]

    def inadmissible(self, workload: Json) -> str:
        """Return why a workload cannot be admitted whatever quota is free; empty where it can."""
        local, name = self.find_queue(workload), workload["spec"].get("queueName", "")
        if local is None:
            return f"LocalQueue {name} doesn't exist"
        if local["spec"].get("stopPolicy", "None") != "None":
            return f"LocalQueue {name} is inactive"
        target = local["spec"].get("clusterQueue", "")
        if target not in self.cluster:
            return f"ClusterQueue {target} doesn't exist"
        if self.fault(target)[0]:
            return f"ClusterQueue {target} is inactive"
        selector = self.cluster[target]["spec"].get("namespaceSelector")
        labels = self._namespaces.get(workload["metadata"]["namespace"], {})
        # As with Kueue no selector selects nothing, and an empty one everything.
        if selector is None or not matches(selector, labels):
            return "Workload namespace doesn't match ClusterQueue selector"
        if workload["spec"].get("active") is False:
            return "The workload is deactivated"
        return ""

    def stop(self, workload: Json, now: datetime) -> Json:
        """Return the workload, evicted where its queue is drained or it is not active any more."""
        status = read_status(workload)
        if not holds(workload, RESERVED) or holds(workload, EVICTED) or holds(workload, FINISHED):
            return workload
        reason = message = ""
        local, queue = self.find_queue(workload), self.cluster.get(self.resolve(workload))
        if workload["spec"].get("active") is False:
            reason, message = "Deactivated", "The workload is deactivated"
        elif queue is not None and queue["spec"].get("stopPolicy") == "HoldAndDrain":
            reason, message = "ClusterQueueStopped", "The ClusterQueue is stopped"
        elif local is not None and local["spec"].get("stopPolicy") == "HoldAndDrain":
            reason, message = "LocalQueueStopped", "The LocalQueue is stopped"
        return (
            {**workload, "status": conditions.evict_status(status, reason, message, now)}
            if reason
            else workload
        )


def _order(workload: Json) -> tuple[int, str, str]:
    return -workload_priority(workload), queue_time(workload), str(workload["metadata"]["name"])


def _admit(workloads: list[Json], queues: Queues, now: datetime) -> list[Json]:
    """Admit in the order of priority and age; return the workloads with their new statuses."""
    current = {workload["metadata"]["uid"]: workload for workload in workloads}
    for workload in workloads:
        quota = queues.quotas.get(queues.resolve(workload))
        if quota is not None and holds(workload, RESERVED) and not holds(workload, FINISHED):
            quota.add(workload_usage(workload))
    blocked: set[str] = set()
    for workload in sorted(workloads, key=_order):
        if holds(workload, RESERVED) or holds(workload, FINISHED):
            continue
        uid, status = workload["metadata"]["uid"], read_status(workload)
        if fault := queues.inadmissible(workload):
            current[uid] = {**workload, "status": conditions.pending(status, "Inadmissible", fault, now)}
            continue
        name = queues.resolve(workload)
        quota = queues.quotas[name]
        if name in blocked:
            message = f"Workloads before it in ClusterQueue {name} wait"
            current[uid] = {**workload, "status": conditions.pending(status, "Pending", message, now)}
            continue
        fitting = fit(workload, quota)
        if not fitting.reason:
            current[uid] = {
                **workload,
                "status": conditions.admit_status(status, name, list(fitting.assignments), now),
            }
            quota.add(workload_usage(current[uid]))
            continue
        message = fitting.reason
        if not fitting.never_fits:
            victims = _victims(workload, current.values(), quota, queues)
            for victim in victims:
                current[victim["metadata"]["uid"]] = _preempt(victim, workload, now)
            message += f". Pending the preemption of {len(victims)} workload(s)" if victims else ""
        current[uid] = {**workload, "status": conditions.pending(status, "Pending", message, now)}
        if quota.spec.get("queueingStrategy") == "StrictFIFO":
            blocked.add(name)
    return list(current.values())


def _preempt(victim: Json, workload: Json, now: datetime) -> Json:
    message = f"Preempted to accommodate a workload (UID: {workload['metadata']['uid']}) "
    message += "due to prioritization in the ClusterQueue"
    return {**victim, "status": conditions.evict_status(read_status(victim), "Preempted", message, now)}


def _victims(workload: Json, workloads: Iterable[Json], quota: Quota, queues: Queues) -> list[Json]:
    """Return the workloads of lower priority without which this one fits; none where that is not enough.

    Those that leave already count as gone: no other has to leave for them.
    """
    if mapping(quota.spec, "preemption").get("withinClusterQueue", "Never") == "Never":
        return []
    name = queues.resolve(workload)
    running = [
        other
        for other in workloads
        if holds(other, RESERVED) and not holds(other, FINISHED) and queues.resolve(other) == name
    ]
    leaving = [other for other in running if holds(other, EVICTED)]
    lower = [o for o in running if o not in leaving and workload_priority(o) < workload_priority(workload)]
    gone, chosen, fits = list(leaving), [], False
    for other in leaving:
        quota.add(workload_usage(other), -1)
    fits = not fit(workload, quota).reason
    for other in sorted(lower, key=lambda o: (workload_priority(o), _reverse_order(queue_time(o)))):
        if fits:
            break
        quota.add(workload_usage(other), -1)
        gone.append(other)
        chosen.append(other)
        fits = not fit(workload, quota).reason
    for other in gone:
        quota.add(workload_usage(other))
    return chosen if fits else []


def _reverse_order(text: str) -> str:
    return "".join(chr(0x10FFFF - ord(letter)) for letter in text)
