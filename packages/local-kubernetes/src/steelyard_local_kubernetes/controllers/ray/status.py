"""The status of a RayCluster, in the words of KubeRay: counts, amounts, endpoints, the state and its conditions."""

from collections.abc import Iterable
from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_labels, read_status
from steelyard_kube.pods import is_ready, read_phase
from steelyard_kube.times import format_time
from steelyard_local_kubernetes.controllers.decision import with_condition
from steelyard_local_kubernetes.controllers.pods import make_condition
from steelyard_local_kubernetes.controllers.ray import names
from steelyard_local_kubernetes.quantity import number
from steelyard_schema.bounds import INT32

HEAD_READY, PROVISIONED = "HeadPodReady", "RayClusterProvisioned"
SUSPENDING, SUSPENDED, FAILURE = "RayClusterSuspending", "RayClusterSuspended", "RayClusterReplicaFailure"


def replicas(group: Json) -> int:
    """Return the desired number of a group's replicas, within its bounds."""
    if group.get("suspend"):
        return 0
    least, most = int(group.get("minReplicas") or 0), group.get("maxReplicas")
    desired = max(int(group.get("replicas") or 0), least)
    return desired if most is None else min(desired, int(most))


def pod_count(group: Json) -> int:
    return replicas(group) * int(group.get("numOfHosts") or 1)


def is_head(pod: Json) -> bool:
    return read_labels(pod).get(names.NODE_TYPE) == names.HEAD


def next_status(cluster: Json, pods: list[Json], services: list[Json], now: datetime) -> Json:
    """Return the status of the cluster with these Pods; the one that it has where nothing of it changes."""
    before = read_status(cluster)
    suspended = bool(cluster["spec"].get("suspend"))
    heads, workers = [pod for pod in pods if is_head(pod)], [pod for pod in pods if not is_head(pod)]
    after = {**before, **_counts(cluster, workers), **_amounts(cluster)}
    after["observedGeneration"] = cluster["metadata"].get("generation", 1)
    after |= _head_and_endpoints(cluster, heads, services)
    all_ready = bool(heads) and len(workers) >= after["desiredWorkerReplicas"] and all(map(is_ready, pods))
    conditions = list(sequence(before, "conditions"))
    for condition in _conditions(before, heads, pods, suspended=suspended, all_ready=all_ready):
        conditions = with_condition(conditions, condition, now, stamp="lastTransitionTime")
    after["conditions"] = conditions
    state = _state(before, pods, suspended=suspended, all_ready=all_ready)
    if state:
        after["state"] = state
        if state != "failed":
            after.pop("reason", None)
    if after == before:
        return before
    if state and state != before.get("state"):
        after["stateTransitionTimes"] = {**mapping(before, "stateTransitionTimes"), state: format_time(now)}
    after["lastUpdateTime"] = format_time(now)
    return after


def failure_status(cluster: Json, reason: str, message: str, now: datetime) -> Json:
    """Return the status of a cluster whose Pods or Service the API has refused."""
    before = read_status(cluster)
    condition = {"type": FAILURE, "status": "True", "reason": reason, "message": message}
    conditions = list(sequence(before, "conditions"))
    after = {**before, "state": "failed", "reason": message}
    after["observedGeneration"] = cluster["metadata"].get("generation", 1)
    after["conditions"] = with_condition(conditions, condition, now, stamp="lastTransitionTime")
    if after == before:
        return before
    times = {**mapping(before, "stateTransitionTimes")}
    if before.get("state") != "failed":
        times["failed"] = format_time(now)
    return {**after, "stateTransitionTimes": times, "lastUpdateTime": format_time(now)}


def _counts(cluster: Json, workers: list[Json]) -> Json:
    groups = sequence(cluster["spec"], "workerGroupSpecs")
    hosts = [int(group.get("numOfHosts") or 1) for group in groups]
    most = sum(int(group.get("maxReplicas") or 0) * host for group, host in zip(groups, hosts, strict=True))
    least = sum(int(group.get("minReplicas") or 0) * host for group, host in zip(groups, hosts, strict=True))
    return {
        "desiredWorkerReplicas": min(sum(pod_count(group) for group in groups), INT32),
        "minWorkerReplicas": min(least, INT32),
        "maxWorkerReplicas": min(most, INT32),
        "availableWorkerReplicas": sum(read_phase(pod) == "Running" for pod in workers),
        "readyWorkerReplicas": sum(is_ready(pod) for pod in workers),
    }


def _amounts(cluster: Json) -> Json:
    """Return what the desired Pods ask for."""
    spec = cluster["spec"]
    groups = [(spec["headGroupSpec"], 1)]
    groups += [(group, pod_count(group)) for group in sequence(spec, "workerGroupSpecs")]
    totals: dict[str, float] = {"desiredCPU": 0.0, "desiredMemory": 0.0, "desiredGPU": 0.0, "desiredTPU": 0.0}
    for group, count in groups:
        for name, amount in _requests(sequence(group, "template", "spec", "containers")):
            field = _field(name)
            if field:
                totals[field] += amount * count
    texts = {name: amount_text(amount) for name, amount in totals.items()}
    return {**texts, "desiredMemory": amount_text(totals["desiredMemory"], binary=True)}


def _field(resource: str) -> str:
    match resource:
        case "cpu":
            return "desiredCPU"
        case "memory":
            return "desiredMemory"
        case "google.com/tpu":
            return "desiredTPU"
    return "desiredGPU" if resource.endswith("gpu") else ""


def _requests(containers: Iterable[Json]) -> Iterable[tuple[str, float]]:
    for container in containers:
        resources = mapping(container, "resources")
        for name, amount in {**mapping(resources, "requests"), **mapping(resources, "limits")}.items():
            yield name, number(amount)


def amount_text(amount: float, *, binary: bool = False) -> str:
    """Return an amount as Kubernetes writes it: in whole units, else in thousandths."""
    if binary and amount:
        for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if amount % size == 0:
                return f"{int(amount // size)}{unit}"
    return str(int(amount)) if amount == int(amount) else f"{round(amount * 1000)}m"


def _head_and_endpoints(cluster: Json, heads: list[Json], services: list[Json]) -> Json:
    service = next(iter(services), None)
    pod = next(iter(heads), None)
    address = str(mapping(pod, "status").get("podIP") or "") if pod else ""
    own = mapping(service, "spec").get("clusterIP") if service else ""
    head = {
        "podIP": address,
        "podName": pod["metadata"]["name"] if pod else "",
        "serviceIP": address if own in ("None", "", None) else str(own),
        "serviceName": service["metadata"]["name"] if service else "",
    }
    ports = sequence(service, "spec", "ports") if service else []
    endpoints = {
        port["name"]: str(port.get("targetPort", port["port"])) for port in ports if port.get("name")
    }
    return {"head": {key: value for key, value in head.items() if value}, "endpoints": endpoints}


def _conditions(
    before: Json, heads: list[Json], pods: list[Json], *, suspended: bool, all_ready: bool
) -> Iterable[Json]:
    yield _head_ready(heads)
    known = {condition["type"]: condition for condition in sequence(before, "conditions")}
    if all_ready or mapping(known, PROVISIONED).get("status") == "True":
        # It stays True: later faults of a Pod are in the Pod's own conditions.
        message = "All Ray Pods are ready for the first time"
        if suspended:
            yield _condition(PROVISIONED, False, "RayClusterPodsProvisioning", "The cluster is suspended")
        else:
            yield _condition(PROVISIONED, True, "AllPodRunningAndReadyFirstTime", message)
    else:
        message = "RayCluster Pods are being provisioned for first time"
        yield _condition(PROVISIONED, False, "RayClusterPodsProvisioning", message)
    if FAILURE in known and (all_ready or suspended):
        yield _condition(FAILURE, False, "PodsCreated", "")
    if suspended:
        yield _condition(SUSPENDING, bool(pods), "UserRequestSuspend", "")
        yield _condition(SUSPENDED, not pods, "UserRequestSuspend", "")
    elif SUSPENDED in known:
        yield _condition(SUSPENDING, False, "UserRequestResume", "")
        yield _condition(SUSPENDED, False, "UserRequestResume", "")


def _condition(kind: str, status: bool, reason: str, message: str) -> Json:
    return {"type": kind, "status": str(status), "reason": reason, "message": message}


def _head_ready(heads: list[Json]) -> Json:
    if not heads:
        return _condition(HEAD_READY, False, "HeadPodNotFound", "Head Pod not found")
    ready = make_condition(heads[0], "Ready") or {}
    if ready.get("status") == "True":
        return _condition(HEAD_READY, True, "HeadPodRunningAndReady", "")
    reason = ready.get("reason") or "Unknown"
    return _condition(HEAD_READY, False, str(reason), str(ready.get("message") or ""))


def _state(before: Json, pods: list[Json], *, suspended: bool, all_ready: bool) -> str:
    if suspended:
        return "suspended" if not pods else str(before.get("state") or "")
    if all_ready:
        return "ready"
    return str(before.get("state") or "")  # it stays until all Pods are ready, as with KubeRay
