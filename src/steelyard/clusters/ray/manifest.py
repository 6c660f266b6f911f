"""The RayCluster that a configuration describes: a pure function."""

import json
from collections.abc import Mapping

from steelyard.clusters.ray import names
from steelyard.clusters.ray.config import ClusterConfig, PodSettings, WorkerGroup
from steelyard.clusters.strategic import merge
from steelyard_common.types import Json

RAY_RESOURCES: Mapping[str, str] = {
    "aws.amazon.com/neuroncore": "neuron_cores",
    "habana.ai/gaudi": "HPU",
    "huawei.com/Ascend910": "NPU",
    "huawei.com/Ascend310": "NPU",
    "google.com/tpu": "TPU",
}
"""Ray's names of accelerators that are not GPUs, by their resource."""
GPUS = frozenset({"nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"})


def ray_cluster(config: ClusterConfig, namespace: str, queue: str | None) -> Json:
    """Return the resource; `queue` is the LocalQueue to use, if one is."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata(config, namespace, queue),
        "spec": cluster_spec(config, elastic=queue is not None),
    }


def metadata(config: ClusterConfig, namespace: str, queue: str | None) -> Json:
    labels = names.queue_labels(config.labels, queue, config.priority_class)
    annotations = {**config.annotations}
    if queue is not None and config.autoscaling is not None:
        annotations.setdefault(names.ELASTIC, "true")
    result: Json = {"name": config.name, "namespace": namespace}
    if labels:
        result["labels"] = labels
    return {**result, "annotations": annotations} if annotations else result


def cluster_spec(config: ClusterConfig, *, elastic: bool = False) -> Json:
    """Return the `spec` of a RayCluster, which is also a RayJob's `rayClusterSpec`."""
    head = config.head
    spec: Json = {
        "rayVersion": config.ray_version,
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            "rayStartParams": {"dashboard-host": "0.0.0.0", **ray_params(head)},  # in its Pod
            "template": pod_template(config, head, head=True),
        },
        "workerGroupSpecs": [worker_group(config, group) for group in config.workers],
    }
    if config.autoscaling is not None:
        spec |= {"enableInTreeAutoscaling": True, "autoscalerOptions": _autoscaler(config, elastic)}
    if config.gcs_fault_tolerance is not None:
        spec["gcsFaultToleranceOptions"] = _fault_tolerance(config)
    return spec


def worker_group(config: ClusterConfig, group: WorkerGroup) -> Json:
    result: Json = {"groupName": group.name}
    if config.autoscaling is None:
        count = 1 if group.replicas is None else group.replicas
        result |= {"replicas": count, "minReplicas": count, "maxReplicas": count}
    else:
        # The autoscaler writes `replicas`: a second writer would undo its work with each apply.
        result |= {"minReplicas": group.least, "maxReplicas": group.max_replicas}
        if group.replicas is not None:
            result["replicas"] = group.replicas
    if group.hosts != 1:
        result["numOfHosts"] = group.hosts
    return {
        **result,
        "rayStartParams": ray_params(group),
        "template": pod_template(config, group, head=False),
    }


def ray_params(group: PodSettings) -> dict[str, str]:
    """Return the options of `ray start`: GPUs by their number, other accelerators by Ray's names."""
    devices = group.resources.accelerators
    own = {RAY_RESOURCES[name]: count for name, count in devices.items() if name in RAY_RESOURCES}
    params = {"resources": f"'{json.dumps(own)}'"} if own else {}
    gpus = sum(count for name, count in devices.items() if name in GPUS)
    return {**params, **({"num-gpus": str(gpus)} if gpus else {}), **group.ray_params}


def pod_template(config: ClusterConfig, group: PodSettings, *, head: bool) -> Json:
    volumes = (*config.volumes, *group.volumes)
    container: Json = {
        "name": names.HEAD_CONTAINER if head else names.WORKER_CONTAINER,
        "image": group.image or config.full_image,
        "resources": {
            "requests": {name: str(value) for name, value in group.resources.requests.items()},
            "limits": {name: str(value) for name, value in group.resources.limits.items()},
        },
    }
    if head:
        ports = {
            "gcs-server": names.GCS_PORT,
            "dashboard": names.DASHBOARD_PORT,
            "client": names.CLIENT_PORT,
        }
        container["ports"] = [{"name": name, "containerPort": port} for name, port in ports.items()]
    env = {"RAY_USAGE_STATS_ENABLED": "1" if config.usage_stats else "0", **config.env, **group.env}
    container["env"] = [{"name": name, "value": value} for name, value in env.items()]
    if volumes:
        container["volumeMounts"] = [volume.mount for volume in volumes]
    spec: Json = {"containers": [container]}
    if volumes:
        # A volume that is mounted twice is there once.
        spec["volumes"] = list({volume.name: volume.volume for volume in volumes}.values())
    spec |= _placement(config, group)
    template: Json = {"spec": spec}
    if group.labels or group.annotations:
        pairs = {"labels": group.labels, "annotations": group.annotations}
        template["metadata"] = {name: dict(values) for name, values in pairs.items() if values}
    return merge(template, group.pod_overrides)


def _placement(config: ClusterConfig, group: PodSettings) -> Json:
    spec: Json = {}
    if group.node_selector:
        spec["nodeSelector"] = dict(group.node_selector)
    if group.tolerations:
        spec["tolerations"] = [_toleration(item.model_dump()) for item in group.tolerations]
    if config.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in dict.fromkeys(config.image_pull_secrets)]
    if config.service_account is not None:
        spec["serviceAccountName"] = config.service_account
    return spec


def _toleration(values: Json) -> Json:
    seconds = values.pop("seconds")
    result = {name: value for name, value in values.items() if value}
    return result if seconds is None else {**result, "tolerationSeconds": seconds}


def _autoscaler(config: ClusterConfig, elastic: bool) -> Json:
    autoscaling = config.autoscaling
    assert autoscaling is not None
    amounts = {"cpu": str(autoscaling.cpu), "memory": str(autoscaling.memory)}
    options: Json = {
        "upscalingMode": autoscaling.mode,
        "idleTimeoutSeconds": autoscaling.idle_seconds,
        "resources": {"requests": amounts, "limits": dict(amounts)},
    }
    return {**options, "version": "v2"} if elastic else options


def _fault_tolerance(config: ClusterConfig) -> Json:
    options = config.gcs_fault_tolerance
    assert options is not None
    result: Json = {"redisAddress": options.redis_address}
    if options.redis_password is not None:
        result["redisPassword"] = {"valueFrom": {"secretKeyRef": options.redis_password.model_dump()}}
    if options.storage_namespace is not None:
        result["externalStorageNamespace"] = options.storage_namespace
    return result
