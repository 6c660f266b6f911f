"""The Service of a Ray cluster's head."""

from steelyard.local.controllers.pods import owner_reference
from steelyard.local.controllers.ray import names
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import annotations_of, labels_of


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
            "labels": {**labels_of(template), **labels},
            "annotations": {**mapping(cluster["spec"], "headServiceAnnotations"), **annotations_of(template)},
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
