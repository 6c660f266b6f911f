"""The RayCluster controller's decision: a head with its Service, and the desired number of workers of each group.

`sync.py` calls `decide` with the cluster, then its Pods and Services as they are stored.
"""

from collections import defaultdict
from datetime import datetime
from itertools import islice

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import is_deleting, read_annotations, read_labels, read_status
from steelyard_kube.pods import is_ready, is_terminal, read_phase
from steelyard_local_kubernetes.controllers.decision import Decision, Event, Room, batch
from steelyard_local_kubernetes.controllers.pods import choose_free_names, name_series, owner_reference
from steelyard_local_kubernetes.controllers.ray import autoscaler, names
from steelyard_local_kubernetes.controllers.ray.pods import head_pod, worker_pod
from steelyard_local_kubernetes.controllers.ray.status import is_head, next_status, pod_count


def labels(cluster: Json) -> Json:
    """Return the labels by which the API lists the cluster's Pods."""
    return {names.CLUSTER: cluster["metadata"]["name"]}


def decide(cluster: Json, children: list[Json], now: datetime, taken: set[str] | None = None) -> Decision:
    """Decide the actions for `cluster`. `taken`: Pod names that belong to other objects."""
    if is_deleting(cluster) or names.is_managed_elsewhere(cluster):
        return Decision()
    if fault := invalid(cluster):
        return Decision(events=(Event("InvalidRayClusterSpec", fault, "Warning"),))
    pods = [child for child in children if child["kind"] == "Pod"]
    # The platform's Service of the dashboard is a child of the cluster as well, and must not count as the head's.
    head = names.head_service_name(cluster["metadata"]["name"])
    services = [
        child for child in children if (child["kind"], child["metadata"]["name"]) == ("Service", head)
    ]
    unfinished = [pod for pod in pods if not is_terminal(pod)]
    live = [pod for pod in unfinished if not is_deleting(pod)]
    suspended = bool(cluster["spec"].get("suspend"))
    # Pods that have ended make room for others of the same name and number.
    delete = [pod for pod in pods if is_terminal(pod) and not is_deleting(pod)]
    create: list[Json] = []
    more = False
    if suspended:
        delete = [pod for pod in pods if not is_deleting(pod)]
    else:
        create += [] if services else [head_service(cluster)]
        if not any(is_head(pod) for pod in pods):
            # The account first: a Pod whose account is not there is refused.
            create += autoscaler.access(cluster) if autoscaler.is_autoscaled(cluster) else []
            create.append(head_pod(cluster))
        few = batch(len(pods))
        workers, surplus = _workers(cluster, pods, live, taken or set(), few + 1)
        more = len(workers) > few
        create += workers[:few]
        delete += [pod for pod in surplus if pod not in delete]
    status = next_status(cluster, unfinished if suspended else live, services, now)
    return Decision(
        status=status if status != read_status(cluster) else None,
        create=tuple(create),
        delete=tuple(delete),
        more=more,
    )


def invalid(cluster: Json) -> str:
    """Return what keeps the specification from being carried out; empty where nothing does."""
    spec = cluster["spec"]
    groups = [group["groupName"] for group in sequence(spec, "workerGroupSpecs")]
    if not sequence(spec, "headGroupSpec", "template", "spec", "containers"):
        return "headGroupSpec should have at least one container"
    for group in sequence(spec, "workerGroupSpecs"):
        if not sequence(group, "template", "spec", "containers"):
            return f"workerGroupSpec {group['groupName']} should have at least one container"
        most = group.get("maxReplicas")
        if most is not None and int(group.get("minReplicas") or 0) > int(most):
            return f"worker group {group['groupName']} has minReplicas greater than maxReplicas"
    if len(set(groups)) < len(groups):
        return "worker group names must be unique"
    return ""


def _workers(
    cluster: Json, pods: list[Json], live: list[Json], taken: set[str], most: int
) -> tuple[list[Json], list[Json]]:
    """Return at most `most` workers to make, and those to delete, of all groups."""
    metadata = cluster["metadata"]
    used = taken | {pod["metadata"]["name"] for pod in pods}
    create: list[Json] = []
    delete: list[Json] = []
    groups = sequence(cluster["spec"], "workerGroupSpecs")
    # Of all groups together, however many there are.
    room = Room()
    by_group = defaultdict[str | None, list[Json]](list)
    for pod in live:
        if not is_head(pod):
            by_group[read_labels(pod).get(names.GROUP)].append(pod)
    for group in groups:
        mine = by_group.pop(group["groupName"], [])
        named = set(sequence(group, "scaleStrategy", "workersToDelete"))
        chosen = [pod for pod in mine if pod["metadata"]["name"] in named]
        rest = [pod for pod in mine if pod not in chosen]
        lacking = room.take(group["template"], pod_count(group)) - len(rest)
        base = names.worker_base(metadata["name"], group["groupName"])
        free = choose_free_names(base, name_series(cluster), used)
        wanted = min(max(lacking, 0), most - len(create))
        create += [worker_pod(cluster, group, name) for name in islice(free, wanted)]
        delete += chosen + sorted(rest, key=_deletion_order)[: max(-lacking, 0)]
    # What is left is of groups that are no more.
    return create, delete + [pod for rest in by_group.values() for pod in rest]


def _deletion_order(pod: Json) -> tuple[bool, bool, str]:
    """Return a sort key: first the Pods whose loss costs least."""
    return read_phase(pod) == "Running", is_ready(pod), str(pod["metadata"]["name"])


def head_service(cluster: Json) -> Json:
    """Return the Service: without an address of its own unless its type says so, as KubeRay makes it."""
    group, metadata = cluster["spec"]["headGroupSpec"], cluster["metadata"]
    template = mapping(group, "headService")
    labels = names.common_labels(cluster, names.HEAD)
    kind = group.get("serviceType") or "ClusterIP"
    spec = {
        "type": kind,
        "selector": labels,
        "ports": ports(cluster),
        "publishNotReadyAddresses": True,
        **({"clusterIP": "None"} if kind == "ClusterIP" else {}),
        **mapping(template, "spec"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.head_service_name(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": {**read_labels(template), **labels},
            "annotations": {
                **mapping(cluster["spec"], "headServiceAnnotations"),
                **read_annotations(template),
            },
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": spec,
    }


def ports(cluster: Json) -> list[Json]:
    """Return the ports that the head's container names, or Ray's own; and that of its figures."""
    containers = sequence(cluster["spec"]["headGroupSpec"], "template", "spec", "containers")
    named = {
        port.get("name") or str(port["containerPort"]): int(port["containerPort"])
        for port in (sequence(containers[0], "ports") if containers else ())
    }
    numbers = {**(named or names.PORTS)}
    if names.METRICS_PORT not in numbers.values():
        numbers["metrics"] = names.METRICS_PORT
    return [
        {"name": name, "port": port, "targetPort": port, "protocol": "TCP", "appProtocol": "tcp"}
        for name, port in numbers.items()
    ]
