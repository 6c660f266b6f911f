"""Certificates for Pods: the API says which Pod asks, and nothing that the Pod says about itself counts."""

from datetime import datetime

from steelyard.operator.ray.certificates.authorities import PlatformKey, issue, nodes, read_request_key
from steelyard.operator.ray.certificates.decisions import node_bundle
from steelyard.operator.ray.certificates.templates import AUDIENCE
from steelyard.operator.ray.owned import CLUSTER, HEAD, NODE_TYPE, head_service
from steelyard.operator.ray.serving.reviews import Reviews
from steelyard_common.types import Json, sequence
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import NotFound
from steelyard_kube.objects import find_controller, read_labels, read_status
from steelyard_kube.resource import PODS, RAY_CLUSTERS

_ACCOUNT = "system:serviceaccount:"


class Refused(Exception):
    """An answer without a certificate, with its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def certificate_for(
    cluster: Cluster, reviews: Reviews, key: PlatformKey, now: datetime, *, token: str, request: str
) -> Json:
    """Return a Pod's certificate and what it trusts. Raises Refused, ApiError."""
    pod = await _find_pod(cluster, reviews, token)
    owner = await _find_ray_cluster(cluster, pod)
    hosts = list_hosts(pod, owner)
    try:
        public = read_request_key(request)
    except ValueError as error:
        raise Refused(400, str(error)) from error
    metadata = owner["metadata"]
    authority = key.authority(nodes(metadata["uid"]), now)
    certificate = issue(authority, public, pod["metadata"]["name"], hosts, now, "both")
    return {"certificate": certificate, "ca": node_bundle(key, owner, now)}


async def _find_pod(cluster: Cluster, reviews: Reviews, token: str) -> Json:
    caller = await reviews.caller(token, [AUDIENCE]) if token else None
    if caller is None:
        raise Refused(401, f"a token of the Pod's account for {AUDIENCE} is needed")
    name, uid = caller.extra("pod-name"), caller.extra("pod-uid")
    if not caller.name.startswith(_ACCOUNT) or not name:
        raise Refused(403, f"the token of {caller.name} is not bound to a Pod")
    namespace = caller.name.removeprefix(_ACCOUNT).partition(":")[0]
    try:
        pod = await cluster.get(PODS, name, namespace)
    except NotFound as error:
        raise Refused(403, f"Pod {namespace}/{name} is gone") from error
    if pod["metadata"]["uid"] != uid:
        raise Refused(403, f"Pod {namespace}/{name} is another one by now")
    return pod


async def _find_ray_cluster(cluster: Cluster, pod: Json) -> Json:
    """Return the RayCluster that controls the Pod: a label alone could be anybody's."""
    controller, metadata = find_controller(pod), pod["metadata"]
    name, namespace = read_labels(pod).get(CLUSTER, ""), metadata["namespace"]
    if not name or controller is None or (controller["kind"], controller["name"]) != ("RayCluster", name):
        raise Refused(403, f"Pod {namespace}/{metadata['name']} belongs to no RayCluster")
    try:
        owner = await cluster.get(RAY_CLUSTERS, name, namespace)
    except NotFound as error:
        raise Refused(403, f"RayCluster {namespace}/{name} is gone") from error
    if owner["metadata"]["uid"] != controller["uid"]:
        raise Refused(403, f"RayCluster {namespace}/{name} is another one by now")
    return owner


def list_hosts(pod: Json, owner: Json) -> list[str]:
    """Return the names and addresses that a Pod's certificate has. Raises Refused while it has no address."""
    status, metadata = read_status(pod), pod["metadata"]
    addresses = [str(entry["ip"]) for entry in sequence(status, "podIPs")] or [str(status.get("podIP") or "")]
    if not addresses[0]:
        # The node writes it at about the time when the first container starts.
        raise Refused(503, "the Pod's address is not known yet")
    hosts = [*addresses, "127.0.0.1", "::1", "localhost"]
    if read_labels(pod).get(NODE_TYPE) == HEAD:
        service, namespace = head_service(owner), metadata["namespace"]
        ends = ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
        hosts += [f"{service}{end}" for end in ends]
    return hosts
