"""The Service controller's decision: EndpointSlices that list the Pods behind a Service, ready or not, and the address
of a load balancer.

A Service without a selector has no slices made here. Pods whose named ports differ in number get a slice of their own,
as on a cluster. A load balancer's address is the Service's own, which this machine reaches.
"""

from collections.abc import Iterable

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import is_deleting, read_labels, read_status
from steelyard_kube.pods import is_ready, is_terminal
from steelyard_local_kubernetes.controllers.decision import Decision
from steelyard_local_kubernetes.controllers.pods import matches, owner_reference, suffix

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}


def decide(service: Json, pods: Iterable[Json], slices: list[Json]) -> Decision:
    """Decide the actions for `service`, given the namespace's Pods and the Service's own slices."""
    selector = service["spec"].get("selector")
    if service["metadata"].get("deletionTimestamp"):
        return Decision()
    statuses = _balancer_status(service)
    another_name = service["spec"].get("type") == "ExternalName"
    if not selector and not another_name:
        return Decision(statuses=statuses)
    desired: dict[str, Json] = {}
    if not another_name:
        chosen = [pod for pod in pods if matches({"matchLabels": selector}, pod["metadata"].get("labels"))]
        desired = {slice_["metadata"]["name"]: slice_ for slice_ in _slices(service, chosen)}
    present = {slice_["metadata"]["name"]: slice_ for slice_ in slices}
    create = [slice_ for name, slice_ in desired.items() if name not in present]
    patch = [
        (old, {"endpoints": desired[name]["endpoints"], "ports": desired[name]["ports"]})
        for name, old in present.items()
        if name in desired and _content(old) != _content(desired[name])
    ]
    delete = [old for name, old in present.items() if name not in desired]
    return Decision(create=tuple(create), patch=tuple(patch), delete=tuple(delete), statuses=statuses)


def _balancer_status(service: Json) -> tuple[tuple[Json, Json], ...]:
    """The Service with the status that its load balancer gives it; empty where it has that."""
    spec, there = service["spec"], sequence(service, "status", "loadBalancer", "ingress")
    address = spec.get("clusterIP")
    # A class names another program that is to give the address.
    if spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass"):
        return ()
    balanced = spec.get("type") == "LoadBalancer" and address
    desired = [{"ip": address, "ipMode": "VIP"}] if balanced else []
    return () if there == desired else ((service, {"loadBalancer": {"ingress": desired or None}}),)


def _content(endpoint_slice: Json) -> tuple[object, object]:
    return sequence(endpoint_slice, "endpoints"), sequence(endpoint_slice, "ports")


def _slices(service: Json, pods: list[Json]) -> list[Json]:
    """One slice per way in which the Service's ports resolve; one without endpoints when there is no Pod."""
    groups: dict[str, tuple[list[Json], list[Json]]] = {}
    listed = [pod for pod in pods if read_status(pod).get("podIP") and not is_terminal(pod)]
    for pod in sorted(listed, key=lambda pod: str(pod["metadata"]["name"])):
        ports = _ports(service, pod)
        groups.setdefault(repr(ports), (ports, []))[1].append(_endpoint(service, pod))
    if not groups:
        groups[""] = ([], [])
    # The first slice keeps its name whatever its ports: a Service usually has just one.
    return [
        _slice(service, "" if number == 0 else key, ports, endpoints)
        for number, (key, (ports, endpoints)) in enumerate(sorted(groups.items()))
    ]


def _ports(service: Json, pod: Json) -> list[Json]:
    ports = []
    for port in sequence(service["spec"], "ports"):
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _port_by_name(pod, target)
        if number is not None:
            ports.append(
                {"name": port.get("name", ""), "protocol": port.get("protocol", "TCP"), "port": number}
            )
    return ports


def _port_by_name(pod: Json, name: str) -> int | None:
    for container in pod["spec"]["containers"]:
        for port in sequence(container, "ports"):
            if port.get("name") == name:
                return int(port["containerPort"])
    return None


def _endpoint(service: Json, pod: Json) -> Json:
    deleting, ready = is_deleting(pod), is_ready(pod)
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    endpoint: Json = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            "ready": published or (ready and not deleting),
            "serving": ready,
            "terminating": deleting,
        },
        "targetRef": {
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "namespace": pod["metadata"]["namespace"],
            "uid": pod["metadata"]["uid"],
        },
    }
    if pod["spec"].get("nodeName"):
        endpoint["nodeName"] = pod["spec"]["nodeName"]
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = pod["spec"]["hostname"]
    return endpoint


def _slice(service: Json, key: str, ports: list[Json], endpoints: list[Json]) -> Json:
    name, uid = service["metadata"]["name"], service["metadata"]["uid"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{name[:57]}-{suffix(uid, key)}",
            "namespace": service["metadata"]["namespace"],
            "labels": {**read_labels(service), SERVICE_NAME: name, **MANAGED_BY},
            "ownerReferences": [owner_reference(service)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }
