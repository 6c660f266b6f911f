"""Jobs as the published training client writes them, with every field that it knows: nothing is lost on the way."""

import json
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from steelyard_common.types import Json
from steelyard_schema.training.kinds import TRAINING
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.test_training import CONTAINERS, path, served

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kubeflow.training import models
    from kubeflow.training.api_client import ApiClient

    from kubernetes import client as kubernetes

__all__ = ["served"]  # a fixture

KINDS = {
    "TFJob": models.KubeflowOrgV1TFJob,
    "PyTorchJob": models.KubeflowOrgV1PyTorchJob,
    "JAXJob": models.KubeflowOrgV1JAXJob,
    "XGBoostJob": models.KubeflowOrgV1XGBoostJob,
    "PaddleJob": models.KubeflowOrgV1PaddleJob,
    "MPIJob": models.KubeflowOrgV1MPIJob,
}
SPECS = {
    "TFJob": ("TF", "Chief"),
    "PyTorchJob": ("PyTorch", "Master"),
    "JAXJob": ("JAX", "Worker"),
    "XGBoostJob": ("XGBoost", "Master"),
    "PaddleJob": ("Paddle", "Master"),
    "MPIJob": ("MPI", "Launcher"),
}
"""Names that the client has for the specs, and the type that leads."""
CHOSEN: dict[str, Any] = {
    "cleanPodPolicy": "Running",
    "managedBy": "kubeflow.org/training-operator",
    "successPolicy": "AllWorkers",
    "restartPolicy": "ExitCode",
    "rdzvBackend": "etcd",
    "mainContainer": "mpi",
    "nprocPerNode": "2",
}
"""Fields that do not accept every text."""
NOT_BOTH = {"nProcPerNode"}


class Answer(NamedTuple):
    """Response with what the client's reader needs."""

    data: str


def whole(model: Any, kind: str) -> Any:
    """An instance with every field, made from what the client knows of them."""
    fields = {}
    for name, type_name in model.openapi_types.items():
        field = model.attribute_map[name]
        if field not in NOT_BOTH:
            fields[name] = CHOSEN.get(field) or value(type_name, field, kind)
    return model(**fields)


def value(type_name: str, field: str, kind: str) -> Any:
    simple: dict[str, Callable[[], Any]] = {
        "str": lambda: "text",
        "int": lambda: 2,
        "bool": lambda: True,
        "datetime": lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "V1PodTemplateSpec": lambda: template(kind),
        "V1LabelSelector": lambda: kubernetes.V1LabelSelector(match_labels={"a": "b"}),
        "Quantity": lambda: "1Gi",
        "K8sIoApiAutoscalingV2MetricSpec": metric,
    }
    if type_name in simple:
        return simple[type_name]()
    if type_name.startswith("list["):
        return [value(type_name[5:-1], field, kind)]
    if type_name.startswith("dict("):
        inner = type_name[5:-1].partition(", ")[2]
        keys = roles(kind) if inner in ("KubeflowOrgV1ReplicaSpec", "KubeflowOrgV1ReplicaStatus") else ["cpu"]
        return {key: sized(value(inner, field, kind), key) for key in keys}
    return whole(getattr(models, type_name), kind)


def roles(kind: str) -> list[str]:
    return sorted({SPECS[kind][1], "Worker"})


def sized(body: Any, role: str) -> Any:
    if hasattr(body, "replicas") and role in ("Master", "Launcher", "Chief"):
        body.replicas = 1
    return body


def metric() -> Json:
    target = {"type": "Utilization", "averageUtilization": 80}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def template(kind: str) -> Any:
    """Return a template with the fields that training manifests use."""
    shm = kubernetes.V1EmptyDirVolumeSource(medium="Memory", size_limit="1Gi")
    field = kubernetes.V1EnvVarSource(field_ref=kubernetes.V1ObjectFieldSelector(field_path="status.podIP"))
    container = kubernetes.V1Container(
        name=CONTAINERS[kind][0],
        image="localhost/none:1",
        command=["sh"],
        args=["-c", "true"],
        env=[kubernetes.V1EnvVar(name="A", value="1"), kubernetes.V1EnvVar(name="IP", value_from=field)],
        ports=[kubernetes.V1ContainerPort(name="p", container_port=1)],
        resources=kubernetes.V1ResourceRequirements(limits={"nvidia.com/gpu": "1", "memory": "1Gi"}),
        volume_mounts=[kubernetes.V1VolumeMount(name="shm", mount_path="/dev/shm")],
    )
    return kubernetes.V1PodTemplateSpec(
        metadata=kubernetes.V1ObjectMeta(labels={"a": "b"}, annotations={"c": "d"}),
        spec=kubernetes.V1PodSpec(
            containers=[container],
            host_network=True,
            node_selector={"gpu": "a100"},
            tolerations=[kubernetes.V1Toleration(key="k", operator="Exists")],
            volumes=[kubernetes.V1Volume(name="shm", empty_dir=shm)],
        ),
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_that_the_client_writes_is_lost(api: Api, served: str, kind: str) -> None:
    codec = ApiClient()
    job = KINDS[kind](
        api_version="kubeflow.org/v1",
        kind=kind,
        metadata=kubernetes.V1ObjectMeta(name="job"),
        spec=whole(getattr(models, f"KubeflowOrgV1{SPECS[kind][0]}JobSpec"), kind),
    )
    written = codec.sanitize_for_serialization(job)
    answer = (await api.post(path(kind, served), written)).ok(201)
    kept = answer.json
    assert kept["spec"] == written["spec"]
    assert not answer.warnings
    for obj in (written, kept):  # what the client writes and cannot read
        obj["spec"]["runPolicy"]["schedulingPolicy"].pop("minResources")
        (obj["spec"].get("elasticPolicy") or {}).pop("metrics", None)
    read = codec.deserialize(Answer(json.dumps(kept)), KINDS[kind])
    assert codec.sanitize_for_serialization(read.spec) == written["spec"]


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_of_a_status_is_lost(api: Api, served: str, kind: str) -> None:
    codec = ApiClient()
    container, role = CONTAINERS[kind]
    spec = {"containers": [{"name": container, "image": "localhost/none:1"}]}
    plain = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "job"}}
    (
        await api.post(
            path(kind, served),
            {**plain, "spec": {TRAINING[kind].replicas: {role: {"template": {"spec": spec}}}}},
        )
    ).ok(201)
    status = codec.sanitize_for_serialization(whole(models.KubeflowOrgV1JobStatus, kind))
    answer = (await api.merge(f"{path(kind, served)}/job/status", {"status": status})).ok(200)
    assert answer.json["status"] == status
    read = codec.deserialize(Answer(json.dumps(answer.json)), KINDS[kind])
    assert codec.sanitize_for_serialization(read.status).keys() == status.keys()
