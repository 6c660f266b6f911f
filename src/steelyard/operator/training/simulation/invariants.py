"""Invariants of a training job in the exploration, and at the end of every run without faults."""

from collections.abc import Iterable, Mapping

from steelyard.operator.simulation.exploration import Actor
from steelyard.operator.simulation.lagging_caches import peek
from steelyard.operator.simulation.simulator import Simulator, State, differing
from steelyard.operator.training.conditions import finished, holds
from steelyard.operator.training.labels import ATTEMPT, REPLICA_INDEX, REPLICA_TYPE, RESTART_SCOPE
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import find_controller, read_annotations, read_labels, read_status
from steelyard_kube.resource import PODS
from steelyard_kube.store import Key as StoreKey
from steelyard_kube.store import StoredObject

Objects = Mapping[StoreKey, StoredObject]


def change_fault(before: Json | None, state: State, simulator: Simulator, actor: Actor) -> str:
    """Say what is wrong with a change; empty if nothing is."""
    old, new = state.objects.objects, simulator.store.all_objects
    changed = differing(old, new)
    if not changed:
        return ""
    job = simulator.resource()
    faults = [_status_fault(before, job)]
    if actor != "surroundings":
        faults.append(_foreign_touched(old, changed))
    if actor == "operator":
        faults += [
            _creation_fault(before, old, new, changed),
            _ending_fault(before, old, new, changed),
        ]
    return next((fault for fault in faults if fault), "")


def _status_fault(before: Json | None, after: Json | None) -> str:
    if not before or not after or before["metadata"]["uid"] != after["metadata"]["uid"]:
        return ""
    was, is_now = read_status(before), read_status(after)
    conditions = sequence(is_now, "conditions")
    if holds(conditions, "Succeeded") and holds(conditions, "Failed"):
        return "it has both succeeded and failed"
    if holds(conditions, "Running") and finished(conditions):
        return "it runs and has finished"
    if finished(sequence(was, "conditions")) and was != is_now:
        return f"the end was changed: {was} became {is_now}"
    for name in ("restarts", "disruptions"):
        if is_now.get(name, 0) < was.get(name, 0):
            return f"{name} were taken back: {was[name]} became {is_now.get(name)}"
    attempts = {(entry["type"], entry["index"]): entry["attempt"] for entry in sequence(was, "replicas")}
    for entry in sequence(is_now, "replicas"):
        if entry["attempt"] < attempts.get((entry["type"], entry["index"]), 0):
            return f"the attempt of {entry['pod']} was taken back to {entry['attempt']}"
    limit = after["spec"]["runPolicy"].get("backoffLimit")
    if limit is not None and is_now.get("restarts", 0) > limit:
        return f"{is_now['restarts']} restarts, and {limit} are allowed"
    uids = [failure["uid"] for failure in sequence(is_now, "failures") if not failure.get("inPlace")]
    return "" if len(uids) == len(set(uids)) else f"a failure is on record twice: {uids}"


def _foreign_touched(old: Objects, changed: Iterable[StoreKey]) -> str:
    for key in changed:
        if key in old and (find_controller(peek(old[key].raw)) or {}).get("kind") == "Other":
            return f"the operator touched {key.name}, which is somebody else's"
    return ""


def _creation_fault(before: Json | None, old: Objects, new: Objects, changed: Iterable[StoreKey]) -> str:
    """Pods are made for a job that goes on, for replicas that have not succeeded, and never while an earlier one is
    left."""
    created = [
        peek(new[key].raw) for key in changed if key.resource == PODS and key in new and key not in old
    ]
    for pod in created:
        if before is None or (find_controller(pod) or {}).get("uid") != before["metadata"]["uid"]:
            return f"{pod['metadata']['name']} was made for nobody"
        status = read_status(before)
        conditions = sequence(status, "conditions")
        if not conditions or finished(conditions) or holds(conditions, "Suspended"):
            return f"{pod['metadata']['name']} was made for what has not begun, has finished or is suspended"
        together = RESTART_SCOPE not in read_annotations(before)
        there = [peek(stored.raw) for stored in old.values()] if together else []
        if fault := _attempt_fault(pod, status, there):
            return fault
    return ""


def _ending_fault(before: Json | None, old: Objects, new: Objects, changed: Iterable[StoreKey]) -> str:
    """Pods of a job that goes on are ended when the status says that they are of the past, and not before."""
    status = read_status(before)
    conditions = sequence(status, "conditions")
    if finished(conditions) or holds(conditions, "Suspended"):
        return ""
    replicas = {entry["pod"]: entry for entry in sequence(status, "replicas")}
    for key in changed:
        if key.resource != PODS or key not in old or not _goes(key, old, new):
            continue
        pod = peek(old[key].raw)
        if before is None or (find_controller(pod) or {}).get("uid") != before["metadata"]["uid"]:
            continue  # of one that was there before, as the operator's cache may still show it
        replica = replicas.get(key.name)  # by its name: it may have lost its labels meanwhile
        if replica is None or _attempt(pod) >= replica["attempt"]:
            return f"{key.name} was ended before it was on record why"
    return ""


def _goes(key: StoreKey, old: Objects, new: Objects) -> bool:
    was = peek(old[key].raw)["metadata"].get("deletionTimestamp")
    return not was and (key not in new or "deletionTimestamp" in peek(new[key].raw)["metadata"])


def _attempt_fault(pod: Json, status: Json, there: Iterable[Json]) -> str:
    replicas = {(entry["type"].lower(), str(entry["index"])): entry for entry in sequence(status, "replicas")}
    name, replica_id = pod["metadata"]["name"], _replica_id(pod)
    if replica_id in replicas:
        replica = replicas[replica_id]
        if _attempt(pod) != replica["attempt"]:
            return f"{name} is attempt {_attempt(pod)}, and {replica['attempt']} is on record"
        if replica.get("phase") == "Succeeded":
            return f"{name} was made although it had succeeded"
    for obj in there:
        owner = find_controller(obj) or {}
        if obj["kind"] != "Pod" or owner.get("uid") != (find_controller(pod) or {}).get("uid"):
            continue
        known = replicas.get(_replica_id(obj))
        if known and _attempt(obj) < known["attempt"]:
            return f"{name} was made beside {obj['metadata']['name']}, which is of the past"
    return ""


def _replica_id(pod: Json) -> tuple[str, str]:
    labels = read_labels(pod)
    return labels.get(REPLICA_TYPE, ""), labels.get(REPLICA_INDEX, "")


def _attempt(pod: Json) -> int:
    return int(read_labels(pod).get(ATTEMPT, 0))


# ---- the end


def end_fault(simulator: Simulator) -> str:
    """Say what is wrong with an end; empty if nothing is."""
    job = simulator.resource()
    if job is None:
        return "" if "to be deleted" in simulator.facts else "the job is gone"
    status = read_status(job)
    conditions = sequence(status, "conditions")
    if not finished(conditions):
        return f"it has not finished: {[condition['type'] for condition in conditions]}"
    if not status.get("completionTime") or not status.get("startTime"):
        return "it has no times"
    fell = sum(fact.startswith("fell ") for fact in simulator.facts)
    if status.get("restarts", 0) + status.get("disruptions", 0) > fell:
        return f"{status['restarts']} restarts and {status['disruptions']} disruptions after {fell} falls"
    if holds(conditions, "Failed"):
        return _failure_fault(job, simulator)
    counts = status["replicaStatuses"]
    active = any(entry.get("active") for entry in counts.values())
    return f"something is active after the success: {counts}" if active else ""


def _failure_fault(job: Json, simulator: Simulator) -> str:
    message = next(
        condition["message"] for condition in job["status"]["conditions"] if condition["type"] == "Failed"
    )
    limit = job["spec"]["runPolicy"].get("backoffLimit")
    fell = sum(fact.startswith("fell ") for fact in simulator.facts)
    types = next(field for name, field in job["spec"].items() if name.endswith("ReplicaSpecs"))
    never = any(replica_type.get("restartPolicy") == "Never" for replica_type in types.values())
    explained = (
        (
            "replica(s) failed" in message
            and ("for good" in simulator.facts or (never and "failed" in simulator.facts))
        )
        # The kubelet's restart that reaches the limit ends the job, and the operator's that would pass it.
        or ("backoff limit" in message and limit is not None and fell >= max(limit, 1))
        or ("belongs to" in message and "foreign" in simulator.facts)
        or "deadline" in message
    )
    return "" if explained else f"{message} after {sorted(simulator.facts) or 'nothing'}"
