"""Labels, annotations, ports and names of KubeRay and Kueue that are read or written here."""

from collections.abc import Mapping

CLUSTER = "ray.io/cluster"
GROUP = "ray.io/group"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
ELASTIC = "kueue.x-k8s.io/elastic-job"
"""Annotation by which Kueue accounts for workers that come and go."""
DEFAULT_QUEUE = "kueue.x-k8s.io/default-queue"
"""Annotation of the LocalQueue for jobs that name none."""
GCS_PORT, CLIENT_PORT, DASHBOARD_PORT = 6379, 10001, 8265
HEAD_CONTAINER, WORKER_CONTAINER = "ray-head", "ray-worker"


def queue_labels(labels: Mapping[str, str], queue: str | None, priority_class: str | None) -> dict[str, str]:
    """Return the labels of an object, with those by which Kueue finds its queue and its priority."""
    result = dict(labels)
    if queue is not None:
        result[QUEUE] = queue
    if priority_class is not None:
        result[PRIORITY] = priority_class
    return result


def head_service(cluster: str) -> str:
    return f"{cluster[:50]}-head-svc"
