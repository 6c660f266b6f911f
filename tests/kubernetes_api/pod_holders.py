"""Objects of each kind that holds a Pod, and Pods that ask for more than they weigh."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from steelyard_common.types import Json

LARGEST = 2**31 - 1
Holder = tuple[str, Json]
"""Path at which a kind is created, and an object of it."""


def make_container(name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": "nowhere/none", "command": ["true"], **fields}


def make_spec(*, container: Mapping[str, Any] = {}, **fields: Any) -> Json:
    return {"containers": [make_container(**container)], "restartPolicy": "Never", **fields}


def containers(number: int, **fields: Any) -> list[Json]:
    return [make_container(f"c{n}", **fields) for n in range(number)]


def named(number: int, **fields: Any) -> list[Json]:
    return [{"name": f"n{n}", **fields} for n in range(number)]


def doubled(levels: int) -> list[Json]:
    first = {"name": "A0", "value": "x"}
    return [first, *({"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})"} for n in range(1, levels))]


_OPTIONAL = {"configMapRef": {"name": "none", "optional": True}}
_PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1}
_TERM = {"topologyKey": "k", "labelSelector": {"matchLabels": {"a": "b"}}}
SPECS: dict[str, Callable[[], Json]] = {
    "containers": lambda: make_spec(containers=containers(4000)),
    "containers of one name": lambda: make_spec(containers=[make_container()] * 4000),
    "init containers": lambda: make_spec(initContainers=containers(4000)),
    "sidecars": lambda: make_spec(initContainers=containers(4000, restartPolicy="Always")),
    "probes": lambda: make_spec(containers=containers(2000, livenessProbe=_PROBE)),
    "volumes": lambda: make_spec(volumes=named(8000, emptyDir={})),
    "claims": lambda: make_spec(volumes=named(4000, persistentVolumeClaim={"claimName": "none"})),
    "mounts": lambda: make_spec(
        volumes=named(1, emptyDir={}),
        container={"volumeMounts": [{"name": "n0", "mountPath": f"/m{n}"} for n in range(4000)]},
    ),
    "ports": lambda: make_spec(container={"ports": [{"containerPort": n} for n in range(1, 8000)]}),
    "ports of one name": lambda: make_spec(container={"ports": [{"containerPort": 1, "name": "a"}] * 8000}),
    "variables": lambda: make_spec(container={"env": named(16_000, value="x")}),
    "variables that double": lambda: make_spec(container={"env": doubled(31)}),
    "large variables": lambda: make_spec(container={"env": named(20, value="x" * 120_000)}),
    "names of variables": lambda: make_spec(container={"env": named(8000, value="$(B)" * 20)}),
    "objects of variables": lambda: make_spec(container={"envFrom": [_OPTIONAL] * 8000}),
    "arguments": lambda: make_spec(container={"args": ["x"] * 100_000}),
    "amounts": lambda: make_spec(
        container={"resources": {"requests": {f"a.b/c{n}": "1" for n in range(8000)}}}
    ),
    "tolerations": lambda: make_spec(tolerations=[{"operator": "Exists"}] * 8000),
    "host names": lambda: make_spec(hostAliases=[{"ip": "127.0.0.1", "hostnames": ["a"] * 4}] * 8000),
    "terms": lambda: make_spec(
        affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM] * 4000}}
    ),
    "spreads": lambda: make_spec(
        topologySpreadConstraints=[
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": f"k{n}"} for n in range(4000)
        ]
    ),
    "Secrets of images": lambda: make_spec(imagePullSecrets=named(16_000)),
    "conditions": lambda: make_spec(readinessGates=[{"conditionType": "a"}] * 8000),
}
"""Pods that ask for much, by what it is."""
BOUNDED = frozenset(
    ("containers", "containers of one name", "init containers", "sidecars", "probes", "variables that double",
     "large variables", "amounts", "ports of one name")
)  # fmt: skip
"""Names of `SPECS` that every built-in kind refuses: their work would be more than the bytes of the object."""
TRAINING = {
    "TFJob": ("tfReplicaSpecs", "Worker", "tensorflow"),
    "PyTorchJob": ("pytorchReplicaSpecs", "Worker", "pytorch"),
    "MXJob": ("mxReplicaSpecs", "Worker", "mxnet"),
    "JAXJob": ("jaxReplicaSpecs", "Worker", "jax"),
    "XGBoostJob": ("xgbReplicaSpecs", "Worker", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "Worker", "paddle"),
    "MPIJob": ("mpiReplicaSpecs", "Worker", "mpi"),
}
FIRST = {"XGBoostJob": "Master", "MPIJob": "Launcher"}
"""Replica types that a kind cannot be without."""


def holders(spec: Json, replicas: int | None = 1, name: str = "attack") -> dict[str, Holder]:
    """Return an object of every kind that holds a Pod, of this spec and with so many replicas."""
    return {kind: _placed(kind, version, body, name) for kind, version, body in _bodies(spec, replicas, name)}


def _placed(kind: str, version: str, body: Json, name: str) -> Holder:
    root = "/apis" if "/" in version else "/api"
    plural = f"{kind.lower()}s"
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}
    return f"{root}/{version}/namespaces/default/{plural}", obj


def _bodies(spec: Json, replicas: int | None, name: str) -> Iterable[tuple[str, str, Json]]:
    labels = {"app": name}
    endless: Json = {"metadata": {"labels": labels}, "spec": {**spec, "restartPolicy": "Always"}}
    ending: Json = {"metadata": {"labels": labels}, "spec": spec}
    selected: Json = {"selector": {"matchLabels": labels}, "template": endless}
    job = {"completions": replicas, "parallelism": replicas, "template": ending}
    set_of_replicas = {**selected, "replicas": replicas}
    yield "Pod", "v1", {"spec": spec}
    yield "PodTemplate", "v1", {"template": endless}
    yield "ReplicationController", "v1", {"spec": {**set_of_replicas, "selector": labels}}
    yield "Deployment", "apps/v1", {"spec": set_of_replicas}
    yield "ReplicaSet", "apps/v1", {"spec": set_of_replicas}
    numbered = {**set_of_replicas, "serviceName": name, "podManagementPolicy": "Parallel"}
    yield "StatefulSet", "apps/v1", {"spec": numbered}
    yield "DaemonSet", "apps/v1", {"spec": selected}
    yield "Job", "batch/v1", {"spec": job}
    yield "CronJob", "batch/v1", {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}}
    for kind, (field, role, container) in TRAINING.items():
        first = {**spec["containers"][0], "name": container}
        template = {**ending, "spec": {**spec, "containers": [first, *spec["containers"][1:]]}}
        roles = {role: {"replicas": replicas, "restartPolicy": "Never", "template": template}}
        if kind in FIRST:
            roles[FIRST[kind]] = {"replicas": 1, "template": template}
        yield kind, "kubeflow.org/v1", {"spec": {field: roles, "jobMode": "MXTrain"}}
    roles = {"main": {"replicas": replicas, "template": ending}}
    framework: Json = {"container": "main", "roles": [{"name": "main"}]}
    yield "DLJob", "dyff.io/v1alpha1", {"spec": {"roles": roles, "frameworkSpec": framework}}
    group = {
        "groupName": "g",
        "replicas": replicas,
        "minReplicas": 0,
        "maxReplicas": LARGEST,
        "template": endless,
    }
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": endless},
        "workerGroupSpecs": [{**group, "rayStartParams": {}}],
    }
    yield "RayCluster", "ray.io/v1", {"spec": cluster}
    yield "RayJob", "ray.io/v1", {"spec": {"entrypoint": "true", "rayClusterSpec": cluster}}
    _, deployment = _placed("Deployment", "apps/v1", {"spec": set_of_replicas}, name)
    yield (
        "AppWrapper",
        "workload.codeflare.dev/v1beta2",
        {"spec": {"components": [{"template": deployment}]}},
    )
