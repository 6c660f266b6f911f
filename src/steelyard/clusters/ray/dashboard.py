"""The address of a cluster's dashboard: only of an Ingress or a Route that belongs to the cluster."""

from collections.abc import Sequence

from steelyard.clusters.ray import names
from steelyard.clusters.reading import items, part, text
from steelyard_common.types import Json
from steelyard_kube.objects import owner_references, read_labels


def belongs(obj: Json, cluster: Json) -> bool:
    """Return whether an object is the cluster's: owned by it, or labelled as its own."""
    uid, name = text(cluster, "metadata", "uid"), text(cluster, "metadata", "name")
    owned = any(owner.get("uid") == uid for owner in owner_references(obj))
    return owned or read_labels(obj).get(names.CLUSTER) == name


def find_url(cluster: Json, ingresses: Sequence[Json], routes: Sequence[Json] = ()) -> str | None:
    """Return the address outside the cluster; None where nothing of the cluster's own leads to its dashboard."""
    for route in (route for route in routes if belongs(route, cluster)):
        hosts = part(route, "spec").get("hostnames")
        host = hosts[0] if isinstance(hosts, list) and hosts else text(route, "spec", "host")
        secure = text(route, "kind") == "HTTPRoute" or bool(part(route, "spec", "tls"))
        if host:
            return (
                f"{'https' if secure else 'http'}://{host}{_path(items(route, 'spec', 'rules'), 'matches')}"
            )
    for ingress in (ingress for ingress in ingresses if belongs(ingress, cluster)):
        rule = next(iter(items(ingress, "spec", "rules")), {})
        addresses = items(ingress, "status", "loadBalancer", "ingress")
        host = text(rule, "host") or next(
            (text(entry, "hostname") or text(entry, "ip") for entry in addresses), ""
        )
        if host:
            secure = bool(items(ingress, "spec", "tls"))
            return f"{'https' if secure else 'http'}://{host}{_path([part(rule, 'http')], 'paths')}"
    return None


def local_url(cluster: Json) -> str | None:
    """Return the address on this machine, where the cluster's head runs on it; None for another cluster."""
    host = text(cluster, "status", "head", "podIP")
    return f"http://{host}:{names.DASHBOARD_PORT}" if host.startswith("127.") else None


def internal_url(cluster: Json) -> str:
    """Return the address for programs inside the cluster."""
    head = part(cluster, "status", "head")
    name, namespace = text(cluster, "metadata", "name"), text(cluster, "metadata", "namespace")
    host = text(head, "serviceName") or names.head_service(name)
    return f"http://{host}.{namespace}.svc:{names.DASHBOARD_PORT}"


def _path(rules: Sequence[Json], field: str) -> str:
    first = next(iter(items(next(iter(rules), {}), field)), {})
    path = text(first, "path") or text(first, "path", "value")
    # Ingress controllers write patterns such as /demo/(.*).
    return path.split("(")[0].rstrip("/")
