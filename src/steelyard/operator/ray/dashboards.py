"""Objects that make dashboards reachable, and their addresses: pure functions of a cluster and the settings."""

import hashlib

from steelyard.operator.ray.owned import (
    DASHBOARD,
    Platform,
    dashboard_name,
    head_service,
    make_owned,
)
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations
from steelyard_schema.ray_annotations import DASHBOARD as ADDRESS

_MAX_LABEL = 63  # characters of the first part of a host's name
_HASH = 10
_HTTP = 80


def dashboard_objects(cluster: Json, settings: RaySettings, platform: Platform) -> list[Json]:
    objects: list[Json] = []
    match platform.dashboard:
        case "ingress":
            objects.append(ingress(cluster, settings))
        case "route":
            objects.append(route(cluster, settings))
        case "httproute":
            objects.append(http_route(cluster, settings))
    if objects and settings.login:
        objects = [login_service(cluster), login_endpoints(cluster, platform), *objects]
    return objects


def dashboard_host(cluster: Json, settings: RaySettings) -> str:
    """Return the host of a dashboard; empty where the settings give no domain."""
    if not settings.domain:
        return ""
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    first = f"{dashboard_name(cluster)}-{namespace}"
    if len(first) > _MAX_LABEL or "-" in name + namespace:
        # Without a hash, a-b in c and a in b-c would share a host, and so the cookies of their visitors.
        digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:_HASH]
        first = f"{first[: _MAX_LABEL - _HASH - 1].rstrip('-')}-{digest}"
    return f"{first}.{settings.domain}"


def address(cluster: Json, settings: RaySettings, platform: Platform) -> str:
    """Return the address of the dashboard for people; empty if none exists or is known."""
    if host := dashboard_host(cluster, settings) if platform.dashboard else "":
        secure = platform.dashboard != "ingress" or bool(settings.tls_secret)
        return f"{'https' if secure else 'http'}://{host}"
    if platform.login_url and not platform.dashboard:
        return f"{platform.login_url}{login_path(cluster)}"
    return ""


def login_path(cluster: Json) -> str:
    """Return the path below which the login serves a dashboard that has no host of its own."""
    metadata = cluster["metadata"]
    return f"/{metadata['namespace']}/{metadata['name']}/"


def address_change(cluster: Json, settings: RaySettings, platform: Platform) -> Json:
    """Return what changes in the annotations, so that they show the dashboard's address."""
    present, desired = read_annotations(cluster).get(ADDRESS), address(cluster, settings, platform)
    return {} if (present or "") == desired else {ADDRESS: desired or None}


def _backend(cluster: Json, settings: RaySettings) -> tuple[str, int]:
    return (dashboard_name(cluster), _HTTP) if settings.login else (head_service(cluster), DASHBOARD)


def login_service(cluster: Json) -> Json:
    """Return the Service before the login: its endpoints are the operators', which are in another namespace."""
    spec = {"ports": [{"name": "dashboard", "port": _HTTP, "protocol": "TCP"}], "type": "ClusterIP"}
    return make_owned(cluster, "v1", "Service", dashboard_name(cluster), {"spec": spec})


def login_endpoints(cluster: Json, platform: Platform) -> Json:
    """Return the endpoints of the Service before the login. All operators listen at one port."""
    name = dashboard_name(cluster)
    port = platform.login_addresses[0][1] if platform.login_addresses else _HTTP
    content = {
        "addressType": "IPv6" if any(":" in host for host, _ in platform.login_addresses) else "IPv4",
        "endpoints": [
            {"addresses": [host], "conditions": {"ready": True}} for host, _ in platform.login_addresses
        ],
        "ports": [{"name": "dashboard", "port": port, "protocol": "TCP"}],
    }
    endpoint_slice = make_owned(cluster, "discovery.k8s.io/v1", "EndpointSlice", name, content)
    endpoint_slice["metadata"]["labels"] |= {
        "kubernetes.io/service-name": name,
        # Kubernetes' own controllers leave slices alone that another one manages.
        "endpointslice.kubernetes.io/managed-by": "steelyard",
    }
    return endpoint_slice


def ingress(cluster: Json, settings: RaySettings) -> Json:
    service, port = _backend(cluster, settings)
    backend = {"service": {"name": service, "port": {"number": port}}}
    rule: Json = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    host = dashboard_host(cluster, settings)
    spec: Json = {"rules": [{**({"host": host} if host else {}), **rule}]}
    if settings.ingress_class:
        spec["ingressClassName"] = settings.ingress_class
    if settings.tls_secret:
        spec["tls"] = [{"secretName": settings.tls_secret, **({"hosts": [host]} if host else {})}]
    name = dashboard_name(cluster)
    return make_owned(
        cluster, "networking.k8s.io/v1", "Ingress", name, {"spec": spec}, dict(settings.annotations)
    )


def route(cluster: Json, settings: RaySettings) -> Json:
    host = dashboard_host(cluster, settings)
    spec: Json = {
        **({"host": host} if host else {}),
        "to": {"kind": "Service", "name": _backend(cluster, settings)[0]},
        "port": {"targetPort": "dashboard"},
        "tls": {"termination": "edge", "insecureEdgeTerminationPolicy": "Redirect"},
    }
    name = dashboard_name(cluster)
    return make_owned(
        cluster, "route.openshift.io/v1", "Route", name, {"spec": spec}, dict(settings.annotations)
    )


def http_route(cluster: Json, settings: RaySettings) -> Json:
    namespace, _, gateway = settings.gateway.rpartition("/")
    parent = {"name": gateway, **({"namespace": namespace} if namespace else {})}
    host = dashboard_host(cluster, settings)
    service, port = _backend(cluster, settings)
    rule = {"backendRefs": [{"name": service, "port": port}]}
    spec: Json = {"parentRefs": [parent], **({"hostnames": [host]} if host else {}), "rules": [rule]}
    name = dashboard_name(cluster)
    return make_owned(
        cluster,
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        name,
        {"spec": spec},
        dict(settings.annotations),
    )
