"""Objects of the platform for one Ray cluster: a pure function of the cluster, the settings and the platform."""

from steelyard.operator.ray.certificates.decisions import certificate_changes, certificate_objects
from steelyard.operator.ray.dashboards import address_change, dashboard_objects
from steelyard.operator.ray.owned import (
    CLIENT,
    CLUSTER,
    DASHBOARD,
    HEAD,
    NODE_TYPE,
    WORKER,
    Platform,
    make_owned,
)
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_kube.objects import is_deleting


def make_objects(cluster: Json, settings: RaySettings, platform: Platform) -> list[Json]:
    """Return what should exist for a cluster. Its owner takes all of it away with it."""
    if is_deleting(cluster):
        return []
    objects = dashboard_objects(cluster, settings, platform)
    if settings.network_policy:
        objects += [workers_policy(cluster), head_policy(cluster, settings)]
    return objects + certificate_objects(cluster, settings, platform)


def annotation_changes(cluster: Json, settings: RaySettings, platform: Platform) -> Json:
    """Return the annotations of the cluster that change; None for one that goes."""
    if is_deleting(cluster):
        return {}
    return {
        **address_change(cluster, settings, platform),
        **certificate_changes(cluster, settings, platform),
    }


def _own_pods(cluster: Json) -> Json:
    return {"podSelector": {"matchLabels": {CLUSTER: cluster["metadata"]["name"]}}}


def workers_policy(cluster: Json) -> Json:
    """Let only the cluster's own Pods reach a worker."""
    return _policy(cluster, WORKER, [{"from": [_own_pods(cluster)]}])


def head_policy(cluster: Json, settings: RaySettings) -> Json:
    """Let the cluster's own Pods reach the head; the namespace, and those that the settings name, two ports of it."""
    callers: list[Json] = [{"podSelector": {}}]
    if settings.open_to_namespaces:
        callers.append({"namespaceSelector": {"matchLabels": dict(settings.open_to_namespaces)}})
    ports = [{"protocol": "TCP", "port": port} for port in (DASHBOARD, CLIENT)]
    rules: list[Json] = [{"from": [_own_pods(cluster)]}, {"from": callers, "ports": ports}]
    if settings.login:
        own = {"matchLabels": {"kubernetes.io/metadata.name": settings.namespace}}
        rules.append({"from": [{"namespaceSelector": own}], "ports": ports[:1]})
    return _policy(cluster, HEAD, rules)


def _policy(cluster: Json, node_type: str, rules: list[Json]) -> Json:
    name = cluster["metadata"]["name"]
    spec = {
        "podSelector": {"matchLabels": {CLUSTER: name, NODE_TYPE: node_type}},
        "policyTypes": ["Ingress"],
        "ingress": rules,
    }
    return make_owned(cluster, "networking.k8s.io/v1", "NetworkPolicy", f"{name}-{node_type}", {"spec": spec})
