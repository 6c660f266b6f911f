"""The jobs of the measurement, and the objects that one leads to as text, for the operator of others to fill in."""

import json

from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training.frameworks import ALL
from steelyard.operator.training.parse import parse_job
from steelyard.operator.training.replica_objects import pod, services
from steelyard_common.types import Json


def make_job(name: str, replicas: int) -> Json:
    """A PyTorchJob with a master and workers, as people write it."""
    container = {"name": "pytorch", "image": "pytorch", "command": ["python", "train.py"]}
    template = {"spec": {"containers": [container]}}
    counts = {"Master": 1, "Worker": replicas - 1}
    specs = {
        role: {"replicas": count, "restartPolicy": "OnFailure", "template": template}
        for role, count in counts.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runPolicy": {}, "pytorchReplicaSpecs": specs},
    }


def templates(replicas: int) -> list[tuple[str, str]]:
    """Path and text of each Pod and Service of a job."""
    resource = make_job("name-of-it", replicas)
    resource["metadata"] |= {"uid": "UID-OF-IT", "creationTimestamp": "2026-01-01T00:00:00Z"}
    job = parse_job(resource, ALL["PyTorchJob"], OperatorSettings())
    objects = [*services(job), *(pod(job, replica_id, 0) for replica_id in job.replica_ids)]
    return [(_path(obj), _text(obj)) for obj in objects]


def _text(obj: Json) -> str:
    return json.dumps(obj, separators=(",", ":")).replace("name-of-it", "NAME-OF-IT")


def _path(obj: Json) -> str:
    return f"/api/v1/namespaces/default/{obj['kind'].lower()}s"
