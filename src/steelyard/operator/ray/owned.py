"""Common parts of the platform's objects for one Ray cluster: an owner, names, labels."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json, mapping
from steelyard_kube.objects import read_annotations, read_status
from steelyard_schema.ray_annotations import CERTIFICATES

if TYPE_CHECKING:
    from steelyard.operator.ray.certificates.authorities import PlatformKey

CLUSTER, NODE_TYPE = "ray.io/cluster", "ray.io/node-type"
HEAD, WORKER = "head", "worker"
DASHBOARD, CLIENT = 8265, 10001
MANAGED = {"app.kubernetes.io/managed-by": "steelyard"}


@dataclass(frozen=True)
class Platform:
    """Facts outside a cluster's own object that decisions about it need."""

    now: datetime
    dashboard: str = ""
    """The kind of object that leads to dashboards: ingress, route, httproute, or empty."""
    key: "PlatformKey | None" = None
    login_addresses: tuple[tuple[str, int], ...] = ()
    """Hosts and ports of the operators that serve dashboards with a login."""
    login_url: str = ""
    """Address of the login of this process, where no object leads to it: on one machine."""


def has_certificates(cluster: Json) -> bool:
    return bool(read_annotations(cluster).get(CERTIFICATES))


def dashboard_name(cluster: Json) -> str:
    """Return the name of the object that leads to the dashboard; codeflare-sdk finds it by this name."""
    return f"ray-dashboard-{cluster['metadata']['name']}"


def head_service(cluster: Json) -> str:
    """Return the name of the head's Service: as the status has it, else as KubeRay would name it."""
    name = mapping(read_status(cluster), "head").get("serviceName")
    return str(name or f"{cluster['metadata']['name']}-head-svc")


def make_owned(
    cluster: Json, api_version: str, kind: str, name: str, content: Json, annotations: Json | None = None
) -> Json:
    """Return an object that goes with the cluster; `content` is what it has in addition to its metadata."""
    metadata = cluster["metadata"]
    owner = {"apiVersion": cluster["apiVersion"], "kind": cluster["kind"], "name": metadata["name"]}
    owner |= {"uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}
    own_metadata: Json = {"name": name, "namespace": metadata["namespace"], "ownerReferences": [owner]}
    own_metadata["labels"] = {CLUSTER: metadata["name"], **MANAGED}
    if annotations:
        own_metadata["annotations"] = dict(annotations)
    return {"apiVersion": api_version, "kind": kind, "metadata": own_metadata, **content}


def service_address(settings: RaySettings, url: str, path: str) -> str:
    """Return the address of a path of the operator's service, as the API and Pods call it."""
    base = settings.url or url or f"https://{settings.service_name}.{settings.namespace}.svc"
    return f"{base.rstrip('/')}{path}"
