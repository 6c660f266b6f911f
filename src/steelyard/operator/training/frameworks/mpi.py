"""MPIJob: a launcher that starts processes on the workers by `kubectl exec`, and the account that lets it.

Workers have no Services: `mpirun` goes through the API server, by the names in the hostfile.
"""

from collections.abc import Mapping
from typing import Any

from steelyard.operator.training.frameworks.framework import Framework, Placement, RoleKind, Value
from steelyard.operator.training.frameworks.success_rules import led_by, require_all
from steelyard.operator.training.model import Invalid, Replica, ReplicaId, TrainingJob
from steelyard_common.types import Json, mapping

LAUNCHER, WORKER = "Launcher", "Worker"
CONFIG, KUBECTL = "/etc/mpi", "/opt/kube"
_AGENT = f"{CONFIG}/kubexec.sh"


def environment(placement: Placement) -> Mapping[str, Value]:
    """The launcher's; workers get theirs from `mpirun`. A launcher without GPUs is shown none of its node's."""
    if placement.replica_id.role != LAUNCHER:
        return {}
    hidden = (
        {}
        if _wants_gpu(placement.role.template)
        else {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    )
    return {
        "OMPI_MCA_plm_rsh_agent": _AGENT,
        "OMPI_MCA_orte_default_hostfile": f"{CONFIG}/hostfile",
        **hidden,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": _AGENT,
        # Open MPI 5 no longer reads the first two; without these it runs everything in the launcher and says nothing.
        "PRTE_MCA_plm_ssh_agent": _AGENT,
        "PRTE_MCA_prte_default_hostfile": f"{CONFIG}/hostfile",
    }


def _wants_gpu(template: Json) -> bool:
    limits = [mapping(container, "resources", "limits") for container in template["spec"]["containers"]]
    return any(name.endswith("/gpu") for limit in limits for name in limit)


def _launcher(job: TrainingJob) -> str:
    return job.replica_name(ReplicaId(LAUNCHER, 0))


def _account(job: TrainingJob) -> str:
    """The user's own account for the launcher, or ours."""
    return str(job.roles[LAUNCHER].template["spec"].get("serviceAccountName") or _launcher(job))


def extras(job: TrainingJob) -> tuple[Json, ...]:
    """The files of /etc/mpi, and leave for the launcher to run commands in the workers, and in no other Pod."""
    name = _launcher(job)
    own = [_object("ServiceAccount", "v1", name, job)] if _account(job) == name else []
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": _account(job), "namespace": job.namespace}
    rbac = "rbac.authorization.k8s.io/v1"
    names = [job.replica_name(replica_id) for replica_id in _workers(job)]
    rule = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]}
    run = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/exec"], "resourceNames": names}
    rules = [rule, run] if names else [rule]  # Kubernetes takes a rule without names as one for all Pods
    return (
        _object("ConfigMap", "v1", f"{job.name}-config", job, data=_files(job)),
        *own,
        _object("Role", rbac, name, job, rules=rules),
        _object("RoleBinding", rbac, name, job, subjects=[subject], roleRef=role),
    )


def _object(kind: str, version: str, name: str, job: TrainingJob, **fields: Any) -> Json:
    metadata = {"name": name, "namespace": job.namespace, "labels": {"app": job.name}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _workers(job: TrainingJob) -> list[ReplicaId]:
    return [replica_id for replica_id in job.replica_ids if replica_id.role == WORKER]


def _files(job: TrainingJob) -> Json:
    slots = job.spec.get("slotsPerWorker") or 1
    replica_ids = [ReplicaId(LAUNCHER, 0)] if _wants_gpu(job.roles[LAUNCHER].template) else []
    hosts = [job.replica_name(replica_id) for replica_id in (*replica_ids, *_workers(job))]
    running = [job.replica_name(replica_id) for replica_id in (*replica_ids, *_running(job))]
    return {
        "hostfile": "".join(f"{host} slots={slots}\n" for host in hosts),
        "kubexec.sh": _kubexec(job),
        "discover_hosts.sh": "\n".join(["#!/bin/sh", *(f"echo {host}:{slots}" for host in running)]),
    }


def _running(job: TrainingJob) -> list[ReplicaId]:
    """Workers that were running when the status was last written: elastic programs ask for them."""
    remembered = job.status.replicas
    return [
        replica_id
        for replica_id in _workers(job)
        if remembered.get(replica_id, Replica(replica_id)).phase == "Running"
    ]


def _kubexec(job: TrainingJob) -> str:
    """Make the script by which `mpirun` reaches a worker, with the delivered kubectl or the image's own."""
    kubectl = f"{KUBECTL}/kubectl" if job.settings.kubectl_delivery_image else "kubectl"
    container = job.spec.get("mainContainer")
    chosen = f" --container {container}" if container else ""
    return f'#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n{kubectl} exec ${{POD_NAME}}{chosen} -- /bin/sh -c "$*"'


def decorate(placement: Placement, pod: Json) -> Json:
    """Mounts for the first container; the launcher's account and kubectl; workers that wait where they say nothing."""
    spec = pod["spec"]
    launcher = placement.replica_id.role == LAUNCHER
    first, *others = spec["containers"]
    mounts = [_mount("mpi-job-kubectl", KUBECTL)] if launcher and _delivered(placement) else []
    mounts.append(_mount("mpi-job-config", CONFIG))
    first = {**first, "volumeMounts": [*first.get("volumeMounts", ()), *mounts]}
    if not launcher and not first.get("command"):
        first |= {"command": ["sleep"], "args": ["365d"]}
    changed = {**spec, "containers": [first, *others]}
    changed["volumes"] = [*spec.get("volumes", ()), *_volumes(placement)]
    if launcher:
        changed["serviceAccountName"] = _account(placement.job)
        changed["initContainers"] = [*spec.get("initContainers", ()), *_delivery(placement)]
    return {**pod, "spec": {key: value for key, value in changed.items() if value != []}}


def _delivered(placement: Placement) -> bool:
    """Return whether an init container brings kubectl; with the setting empty, the launcher's image has it."""
    return bool(placement.job.settings.kubectl_delivery_image)


def _mount(name: str, path: str) -> Json:
    return {"name": name, "mountPath": path}


def _volumes(placement: Placement) -> list[Json]:
    scripts, plain = 0o555, 0o444
    modes = {"kubexec.sh": scripts}
    if placement.replica_id.role == LAUNCHER:
        modes |= {"hostfile": plain, "discover_hosts.sh": scripts}
    items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
    config = {"name": "mpi-job-config", "configMap": {"name": f"{placement.job.name}-config", "items": items}}
    kubectl: Json = {"name": "mpi-job-kubectl", "emptyDir": {}}
    return [kubectl, config] if placement.replica_id.role == LAUNCHER and _delivered(placement) else [config]


def _delivery(placement: Placement) -> list[Json]:
    if not _delivered(placement):
        return []
    resources = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
    return [
        {
            "name": "kubectl-delivery",
            "image": placement.job.settings.kubectl_delivery_image,
            "imagePullPolicy": "IfNotPresent",
            "env": [
                {"name": "TARGET_DIR", "value": KUBECTL},
                {"name": "NAMESPACE", "value": placement.job.namespace},
            ],
            "volumeMounts": [_mount("mpi-job-kubectl", KUBECTL), _mount("mpi-job-config", CONFIG)],
            "resources": {"limits": resources, "requests": resources},
        }
    ]


def check(job: TrainingJob) -> None:
    legacy, policy = job.spec.get("cleanPodPolicy"), mapping(job.spec, "runPolicy").get("cleanPodPolicy")
    if legacy and policy and legacy != policy:
        raise Invalid("spec.cleanPodPolicy", f"is {legacy}, and spec.runPolicy.cleanPodPolicy is {policy}")


MPI = Framework(
    kind="MPIJob",
    label="mpijob-controller",
    specs="mpiReplicaSpecs",
    roles=(
        RoleKind(LAUNCHER, minimum=1, maximum=1, required=True, indexed=False),
        RoleKind(WORKER, default_replicas=0),
    ),
    container="mpi",
    port_name="mpi-port",
    port=9999,
    environment=environment,
    success_rule=led_by((LAUNCHER,), require_all(WORKER)),
    requires_container=False,
    every_container=False,
    masters=(LAUNCHER,),
    services=False,
    check=check,
    extras=extras,
    decorate=decorate,
)
