"""Names, labels and ports of Ray clusters, as KubeRay gives them."""

from steelyard_common.types import Json

CLUSTER, NODE_TYPE, GROUP = "ray.io/cluster", "ray.io/node-type", "ray.io/group"
HEAD, WORKER, HEAD_GROUP = "head", "worker", "headgroup"
OPERATOR = "ray.io/kuberay-operator"
GCS_PORT, CLIENT_PORT, DASHBOARD_PORT = 6379, 10001, 8265
METRICS_PORT, SERVE_PORT, AGENT_PORT = 8080, 8000, 52365
ENVIRONMENT_AGENT_PORT = 52367
"""Port of a node's agent of environments, which KubeRay lets the agent choose."""
PORTS = {
    "client": CLIENT_PORT,
    "dashboard": DASHBOARD_PORT,
    "gcs-server": GCS_PORT,
    "metrics": METRICS_PORT,
    "serve": SERVE_PORT,
}
_LONGEST = 50  # of the part before a Pod's own


def head_service_name(cluster: str) -> str:
    return f"{cluster[:_LONGEST]}-head-svc"


def head_pod_name(cluster: str) -> str:
    return f"{cluster[:_LONGEST]}-head"


def worker_base(cluster: str, group: str) -> str:
    return f"{cluster}-{group}"[:_LONGEST] + "-worker"


def head_host(cluster: Json) -> str:
    """Return the name by which Pods reach the head."""
    metadata = cluster["metadata"]
    return f"{head_service_name(metadata['name'])}.{metadata['namespace']}.svc.cluster.local"


def common_labels(cluster: Json, node_type: str) -> Json:
    name = cluster["metadata"]["name"]
    return {
        CLUSTER: name,
        NODE_TYPE: node_type,
        "ray.io/identifier": f"{name}-{node_type}"[:63],
        "ray.io/is-ray-node": "yes",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


def is_managed_elsewhere(obj: Json) -> bool:
    """Return whether `managedBy` names another controller."""
    return obj["spec"].get("managedBy") not in (None, "", OPERATOR)
