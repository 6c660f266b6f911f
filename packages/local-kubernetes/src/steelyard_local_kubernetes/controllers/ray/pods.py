"""Pods of a Ray cluster: a template of its groups, and the `ray start` that KubeRay writes into it.

Three things are for one machine: the node's address and the object store's size are given, since a Pod here is
neither a network nor a memory group of its own; and a worker waits for the head's port by the shell, since a Python
process of Ray's that only waits takes seconds of processor time.
"""

from collections.abc import Iterable
from copy import deepcopy

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations, read_labels
from steelyard_local_kubernetes.controllers.pods import owner_reference
from steelyard_local_kubernetes.controllers.ray import autoscaler, names
from steelyard_local_kubernetes.quantity import number

SMALLEST_STORE = 80 * 2**20  # bytes; Ray refuses less than 75 MiB
LARGEST_STORE = 2 * 2**30  # bytes, unless the group says otherwise: all Pods share the memory of one machine
GRACE_SECONDS = 5
STORE_SHARE = 0.3  # of the container's memory, as Ray's own default
_FOLDER = "/tmp/ray"
_WITH_VALUES = frozenset(("log-color", "include-dashboard"))
"""Parameters of `ray start` that are given `true` and `false`; of others the name alone says it."""
_OVERWRITE = "ray.io/overwrite-container-cmd"


def head_pod(cluster: Json) -> Json:
    group = cluster["spec"]["headGroupSpec"]
    name = names.head_pod_name(cluster["metadata"]["name"])
    return _pod(cluster, group, name, names.HEAD, names.HEAD_GROUP)


def worker_pod(cluster: Json, group: Json, name: str) -> Json:
    return _pod(cluster, group, name, names.WORKER, group["groupName"])


def _pod(cluster: Json, group: Json, name: str, node_type: str, group_name: str) -> Json:
    template = deepcopy(group["template"])
    spec = template.setdefault("spec", {})
    labels = {**read_labels(template), **names.common_labels(cluster, node_type), names.GROUP: group_name}
    fault_tolerant = bool(cluster["spec"].get("gcsFaultToleranceOptions"))
    annotations = {"ray.io/ft-enabled": str(fault_tolerant).lower(), **read_annotations(template)}
    if spec.get("containers"):
        _prepare(
            cluster, group, spec, node_type, overwritten=read_annotations(cluster).get(_OVERWRITE) == "true"
        )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": cluster["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": spec,
    }


def _prepare(cluster: Json, group: Json, spec: Json, node_type: str, *, overwritten: bool) -> None:
    """Make the first container one of Ray's: its command, environment, probe and folder."""
    container = spec["containers"][0]
    command = start_command(cluster, group, container, node_type)
    variables = _variables(cluster, node_type, command)
    variables += autoscaler.variables(cluster)
    set_names = {variable["name"] for variable in sequence(container, "env")}
    # Before the container's own, which may refer to them.
    added = [variable for variable in variables if variable["name"] not in set_names]
    container["env"] = [*added, *sequence(container, "env")]
    if not overwritten:
        own = " ".join([*sequence(container, "command"), *sequence(container, "args")])
        container["command"] = ["/bin/bash", "-c", "--"]
        # What the template runs goes on while Ray blocks. The shell gives way to Ray, which then hears the
        # signal that ends the container.
        container["args"] = [f"ulimit -n 65536 2>/dev/null; {f'{own} & ' if own else ''}exec {command}"]
    container.setdefault("readinessProbe", _readiness())
    # Ray's processes use up the whole grace period, whatever it is.
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    if node_type == names.WORKER:
        spec["initContainers"] = [*sequence(spec, "initContainers"), _wait(container)]
    mounted = {mount["mountPath"].rstrip("/") for mount in sequence(container, "volumeMounts")}
    if not mounted & {_FOLDER, "/tmp"}:
        # Two Pods of one machine must not find each other's sessions.
        spec["volumes"] = [*sequence(spec, "volumes"), {"name": "ray-session", "emptyDir": {}}]
        mount = {"name": "ray-session", "mountPath": _FOLDER}
        container["volumeMounts"] = [*sequence(container, "volumeMounts"), mount]
    if autoscaler.is_second_version(cluster):
        spec["restartPolicy"] = "Never"  # it replaces a Pod that has failed
    if node_type == names.HEAD and autoscaler.is_autoscaled(cluster):
        autoscaler.add_to(cluster, spec)


def start_command(cluster: Json, group: Json, container: Json, node_type: str) -> str:
    """Return the `ray start` of a container of this group."""
    return f"ray start {' '.join(_flags(_parameters(cluster, group, container, node_type)))}"


def _flags(parameters: dict[str, str]) -> Iterable[str]:
    for name, value in parameters.items():
        if name in _WITH_VALUES:
            yield f"--{name}={value}"
        elif value.lower() == "true":
            yield f"--{name}"
        elif value.lower() != "false":
            yield f"--{name}={value}"


def _parameters(cluster: Json, group: Json, container: Json, node_type: str) -> dict[str, str]:
    """Return the parameters in Ray's order: what the machine needs, what KubeRay fills in, what the group says."""
    head = {"head": "true", "port": str(names.GCS_PORT), "dashboard-host": "0.0.0.0"}
    worker = {"address": f"{names.head_host(cluster)}:{names.GCS_PORT}"}
    memory, cpus, gpus = (_amount(container, name) for name in ("memory", "cpu", "nvidia.com/gpu"))
    store = (
        min(max(int(memory * STORE_SHARE), SMALLEST_STORE), LARGEST_STORE) if memory else SMALLEST_STORE * 3
    )
    filled = {
        "node-ip-address": "$POD_IP",
        "block": "true",
        "dashboard-agent-listen-port": str(names.AGENT_PORT),
        # A port that this agent chooses is known once the head's node has started, which is after its dashboard. The
        # head's server of Ray's clients waits 30 s for it, and the head ends without that server.
        "runtime-env-agent-port": str(names.ENVIRONMENT_AGENT_PORT),
        "metrics-export-port": str(names.METRICS_PORT),
        "object-store-memory": str(store),
        **({"memory": str(int(memory))} if memory else {}),
        **({"num-cpus": str(max(1, int(cpus)))} if cpus else {}),
        **({"num-gpus": str(int(gpus))} if gpus else {}),
    }
    if autoscaler.is_autoscaled(cluster):
        head["no-monitor"] = "true"  # the autoscaler runs in a container of its own
    start = head if node_type == names.HEAD else worker
    return {**start, **filled, **{key: str(value) for key, value in mapping(group, "rayStartParams").items()}}


def _amount(container: Json, resource: str) -> float:
    for kind in ("limits", "requests"):
        amounts = mapping(container, "resources", kind)
        if resource in amounts:
            return number(amounts[resource])
    return 0.0


def _variables(cluster: Json, node_type: str, command: str) -> list[Json]:
    host, port = names.head_host(cluster), names.GCS_PORT
    head = node_type == names.HEAD
    texts = {
        "FQ_RAY_IP": host,
        "RAY_IP": host.partition(".")[0],
        "RAY_PORT": str(port),
        "RAY_ADDRESS": f"$(POD_IP):{port}" if head else f"{host}:{port}",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",  # one machine reports no usage unless the template says so
        "REDIS_PASSWORD": "",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
        "KUBERAY_GEN_RAY_START_CMD": command,
    }
    fields = {
        "POD_IP": "status.podIP",
        "RAY_CLUSTER_NAME": f"metadata.labels['{names.CLUSTER}']",
        "RAY_CLOUD_INSTANCE_ID": "metadata.name",
        "RAY_NODE_TYPE_NAME": f"metadata.labels['{names.GROUP}']",
    }
    if head:
        # Ray forks a server for each of its clients while gRPC's threads run. Between fork and exec gRPC's handlers
        # start threads in the child, which then often crash, and the client fails (Ray's issue 63202).
        texts["GRPC_ENABLE_FORK_SUPPORT"] = "0"
        # By itself Ray has no dashboard where it, or one of its ten processes, does not start within a minute.
        texts["RAY_DASHBOARD_STARTUP_TIMEOUT_S"] = texts[
            "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT"
        ] = "300"
    variables = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()
    ]
    options = mapping(cluster["spec"], "gcsFaultToleranceOptions")
    if head and options:
        texts["RAY_REDIS_ADDRESS"] = options["redisAddress"]
        namespace = options.get("externalStorageNamespace") or cluster["metadata"].get("uid", "")
        texts["RAY_external_storage_namespace"] = namespace
        if password := mapping(options, "redisPassword"):
            del texts["REDIS_PASSWORD"]
            variables.append({"name": "REDIS_PASSWORD", **password})
    return [*variables, *({"name": name, "value": value} for name, value in texts.items())]


def _readiness() -> Json:
    request = {"path": "/api/local_raylet_healthz", "port": names.AGENT_PORT}
    return {
        "httpGet": request,
        "initialDelaySeconds": 2,
        "periodSeconds": 2,
        "timeoutSeconds": 5,
        "failureThreshold": 10,
    }


def _wait(container: Json) -> Json:
    """Return the init container that ends when the head's port answers."""
    call = f'exec 3<>"/dev/tcp/$FQ_RAY_IP/{names.GCS_PORT}"'
    return {
        "name": "wait-gcs-ready",
        "image": container.get("image", ""),
        "command": ["/bin/bash", "-c", f"until ({call}) 2>/dev/null; do sleep 0.5; done"],
        "env": [variable for variable in container["env"] if variable["name"] == "FQ_RAY_IP"],
    }
