"""Definitions of RayCluster and RayJob, `ray.io/v1`, with the fields of KubeRay 1.4."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.definitions.building import (
    ANYTHING,
    BOOLEAN,
    CONDITIONS,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    TIME,
    age,
    array,
    column,
    definition,
    enum_schema,
    integer,
    kind_schema,
    map_schema,
    obj,
    version,
)
from steelyard_schema.unknown_fields import pod_template_schema

_MOST = 2147483647
_MODES = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")
_SECRET = obj(value=STRING, valueFrom=ANYTHING)
_TEXTS = map_schema(STRING)


def ray_definitions() -> list[Json]:
    return [_ray_cluster(), _ray_job()]


def _autoscaler() -> Json:
    container = pod_template_schema()["properties"]["spec"]["properties"]["containers"]["items"]["properties"]
    own = ("resources", "image", "imagePullPolicy", "env", "envFrom", "volumeMounts", "securityContext")
    return obj(
        **{name: container[name] for name in own},
        version=enum_schema("v1", "v2"),
        idleTimeoutSeconds=INT32,
        upscalingMode=enum_schema("Default", "Aggressive", "Conservative"),
    )


def _head_group() -> Json:
    return obj(
        ("template",),
        template=pod_template_schema(),
        headService=ANYTHING,
        enableIngress=BOOLEAN,
        rayStartParams=_TEXTS,
        resources=map_schema(QUANTITY),
        labels=_TEXTS,
        serviceType=STRING,
    )


def _worker_group() -> Json:
    return obj(
        ("groupName", "maxReplicas", "minReplicas", "template"),
        groupName=STRING,
        suspend=BOOLEAN,
        replicas=integer(default=0),
        minReplicas=integer(default=0),
        maxReplicas=integer(default=_MOST),
        idleTimeoutSeconds=INT32,
        numOfHosts=integer(default=1),
        rayStartParams=_TEXTS,
        resources=map_schema(QUANTITY),
        labels=_TEXTS,
        template=pod_template_schema(),
        # Always there, as with KubeRay: Ray's autoscaler replaces it.
        scaleStrategy={**obj(workersToDelete=array(STRING)), "default": {}},
    )


def _cluster_spec() -> Json:
    return obj(
        ("headGroupSpec",),
        authOptions=ANYTHING,
        autoscalerOptions=_autoscaler(),
        enableInTreeAutoscaling=BOOLEAN,
        gcsFaultToleranceOptions=obj(
            ("redisAddress",),
            redisAddress=STRING,
            redisUsername=_SECRET,
            redisPassword=_SECRET,
            externalStorageNamespace=STRING,
        ),
        headGroupSpec=_head_group(),
        headServiceAnnotations=_TEXTS,
        managedBy=STRING,
        rayVersion=STRING,
        suspend=BOOLEAN,
        upgradeStrategy=ANYTHING,
        workerGroupSpecs=array(_worker_group()),
    )


def _cluster_status() -> Json:
    return obj(
        state=STRING,
        reason=STRING,
        conditions=CONDITIONS,
        availableWorkerReplicas=INT32,
        desiredWorkerReplicas=INT32,
        minWorkerReplicas=INT32,
        maxWorkerReplicas=INT32,
        readyWorkerReplicas=INT32,
        desiredCPU=QUANTITY,
        desiredMemory=QUANTITY,
        desiredGPU=QUANTITY,
        desiredTPU=QUANTITY,
        endpoints=_TEXTS,
        head=obj(podIP=STRING, podName=STRING, serviceIP=STRING, serviceName=STRING),
        lastUpdateTime=TIME,
        stateTransitionTimes=map_schema(TIME),
        observedGeneration=INT64,
    )


def _ray_cluster() -> Json:
    columns = [
        column("desired workers", ".status.desiredWorkerReplicas", "integer"),
        column("available workers", ".status.availableWorkerReplicas", "integer"),
        column("cpus", ".status.desiredCPU"),
        column("memory", ".status.desiredMemory"),
        column("gpus", ".status.desiredGPU"),
        column("tpus", ".status.desiredTPU", wide=True),
        column("status", ".status.state"),
        age(),
        column("head pod IP", ".status.head.podIP", wide=True),
        column("head service IP", ".status.head.serviceIP", wide=True),
    ]
    schema = kind_schema(
        "A Ray cluster: a head and groups of workers.", spec=_cluster_spec(), status=_cluster_status()
    )
    names = {"plural": "rayclusters", "categories": ["all"]}
    return definition("ray.io", "RayCluster", names, [version("v1", schema, columns)])


def _job_spec() -> Json:
    return obj(
        activeDeadlineSeconds=INT32,
        backoffLimit=integer(default=0),
        clusterSelector=_TEXTS,
        deletionPolicy=STRING,
        deletionStrategy=ANYTHING,
        entrypoint=STRING,
        entrypointNumCpus={"type": "number"},
        entrypointNumGpus={"type": "number"},
        entrypointResources=STRING,
        jobId=STRING,
        managedBy=STRING,
        metadata=_TEXTS,
        rayClusterSpec=_cluster_spec(),
        runtimeEnvYAML=STRING,
        shutdownAfterJobFinishes=BOOLEAN,
        submissionMode=enum_schema(*_MODES, default="K8sJobMode"),
        submitterConfig=obj(backoffLimit=INT32),
        submitterPodTemplate=pod_template_schema(),
        suspend=BOOLEAN,
        ttlSecondsAfterFinished=integer(default=0),
    )


def _ray_job() -> Json:
    status = obj(
        jobId=STRING,
        rayClusterName=STRING,
        dashboardURL=STRING,
        jobStatus=STRING,
        jobDeploymentStatus=STRING,
        reason=STRING,
        message=STRING,
        startTime=TIME,
        endTime=TIME,
        succeeded=integer(default=0),
        failed=integer(default=0),
        rayClusterStatus=_cluster_status(),
        rayJobInfo=obj(startTime=TIME, endTime=TIME),
        observedGeneration=INT64,
    )
    columns = [
        column("job status", ".status.jobStatus"),
        column("deployment status", ".status.jobDeploymentStatus"),
        column("ray cluster name", ".status.rayClusterName"),
        column("start time", ".status.startTime"),
        column("end time", ".status.endTime"),
        age(),
    ]
    schema = kind_schema("A program that runs on a Ray cluster.", spec=_job_spec(), status=status)
    names = {"plural": "rayjobs", "categories": ["all"]}
    return definition("ray.io", "RayJob", names, [version("v1", schema, columns)])
