# ruff: noqa: E501 - tables are read by their rows
"""Small training jobs of every kind, for tests with the published clients: their replicas say what they were told."""

import time
from collections.abc import Callable
from typing import Any

from steelyard_common.types import Json

IMAGE = "localhost/steelyard/steps"
GROUP, VERSION, NAMESPACE = "kubeflow.org", "v1", "default"


def template(container: str, script: str) -> Json:
    main = {"name": container, "image": IMAGE, "command": ["sh", "-c", script]}
    return {"spec": {"containers": [main]}}


# Of each kind: its replicas' field, its container, its replicas, who says when it is done, and what that one prints.
SAY = {
    "TFJob": "echo task $TF_CONFIG",
    "PyTorchJob": "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR",
    "XGBoostJob": "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR",
    "PaddleJob": "echo nodes $PADDLE_NNODES at $PADDLE_MASTER",
    "JAXJob": "echo process $PROCESS_ID of $NUM_PROCESSES at $COORDINATOR_ADDRESS",
    "MPIJob": "$OMPI_MCA_plm_rsh_agent {worker} 'echo from $(hostname)'",
    "MXJob": "echo role $DMLC_ROLE at $DMLC_PS_ROOT_URI kubernetes $DMLC_USE_KUBERNETES",
}
KINDS: dict[str, tuple[str, str, dict[str, int], str, str]] = {
    "TFJob": ("tfReplicaSpecs", "tensorflow", {"Chief": 1, "Worker": 2}, "chief-0", '"task":{"type":"chief","index":0}'),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch", {"Master": 1, "Worker": 2}, "master-0", "rank 0 of 3 at "),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 1}, "master-0", "rank 0 of 2 at "),
    "PaddleJob": ("paddleReplicaSpecs", "paddle", {"Master": 1, "Worker": 1}, "master-0", "nodes 2 at "),
    "JAXJob": ("jaxReplicaSpecs", "jax", {"Worker": 2}, "worker-0", "process 0 of 2 at "),
    "MPIJob": ("mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 1}, "launcher", "from a-mpijob-worker-0"),
    "MXJob": ("mxReplicaSpecs", "mxnet", {"Scheduler": 1, "Server": 1, "Worker": 1}, "scheduler-0", "role scheduler at "),
}  # fmt: skip


def manifest(kind: str, name: str, script: str = "", **policy: Any) -> Json:
    """A small job of a kind whose replicas say what they were told."""
    field, container, replicas, _, _ = KINDS[kind]
    script = script or SAY[kind].replace("{worker}", f"{name}-worker-0")
    roles = {role: {"replicas": n, "template": template(container, script)} for role, n in replicas.items()}
    spec: Json = {"runPolicy": policy, field: roles} | ({"jobMode": "MXTrain"} if kind == "MXJob" else {})
    if kind == "MPIJob":  # its workers wait to be asked
        roles["Worker"]["template"] = template(container, "sleep 60")
        spec["runPolicy"] = {"cleanPodPolicy": "Running", **policy}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def modelled(training: Any, job: Json) -> Any:
    """The client's own model of a manifest."""
    from kubeflow.training.utils import utils

    return training.api_client.deserialize(utils.FakeResponse(job), f"KubeflowOrgV1{job['kind']}")


def finished(training: Any, kind: str, name: str, *conditions: str) -> Any:
    expected = set(conditions or ("Succeeded",))
    return training.wait_for_job_conditions(
        name, job_kind=kind, expected_conditions=expected, wait_timeout=60, polling_interval=0.25
    )


def eventually(holds: Callable[[], object], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def has(training: Any, kind: str, name: str, condition: str) -> bool:
    conditions = training.get_job_conditions(name, job_kind=kind)
    return any(entry.type == condition and entry.status == "True" for entry in conditions)


def succeeded(api: Any, where: tuple[str, ...], made: Json) -> list[str]:
    """The conditions of an object at its end, by the client's own watch."""
    from kubernetes import watch

    seen: list[str] = []
    stream = watch.Watch().stream(
        api.list_namespaced_custom_object,
        *where,
        field_selector=f"metadata.name={made['metadata']['name']}",
        resource_version=made["metadata"]["resourceVersion"],
        timeout_seconds=60,
    )
    for event in stream:
        conditions = (event["object"].get("status") or {}).get("conditions") or []
        seen = [condition["type"] for condition in conditions if condition["status"] == "True"]
        if "Succeeded" in seen or "Failed" in seen:
            break
    return seen
