"""Network policies of Ray clusters: pure functions of a cluster and the settings."""

from steelyard.operator.ray.owned import CLIENT, CLUSTER, DASHBOARD, HEAD, NODE_TYPE, WORKER, owned
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json


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
    return owned(cluster, "networking.k8s.io/v1", "NetworkPolicy", f"{name}-{node_type}", {"spec": spec})
