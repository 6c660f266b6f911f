"""Models that all kinds of training jobs share: Pod templates, replicas, and the run policy.

A template is the user's own. Described here is what the operator reads; the definitions have all other fields of Pods,
as Kubernetes publishes them (`crd.py`).
Contract: Kubeflow Training Operator 1.9.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from steelyard_common.types import Json
from steelyard_schema.base import SchemaModel

RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]
Scope = Literal["Pod", "ReplicaType", "Job"]
CleanPodPolicy = Literal["All", "Running", "None"]

LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
MAX_ROLES, MAX_CONTAINERS, MAX_REPLICAS = 16, 32, 10_000
MAX_POD_BYTES = 128 << 20
"""Most bytes of all Pods of a job: each is a copy of its template, with the names of the others."""
INT32, INT64 = 2**31 - 1, 2**63 - 1
"""The largest numbers of v1's fields, which are of Go's types."""

Quantity = Annotated[int | str, Field(json_schema_extra={"x-kubernetes-int-or-string": True})]


def validations(*rules: tuple[str, str]) -> Json:
    """Return CEL rules for a schema, with the messages for objects that break them."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


class Free(SchemaModel):
    """A model that keeps fields that it does not know."""

    model_config = ConfigDict(extra="allow")


class EnvironmentVariable(Free):
    """An environment variable of a container."""

    name: str = Field(min_length=1)
    """Name of the variable."""
    value: str | None = None
    """Value of the variable."""


class ContainerPort(Free):
    """A port of a container."""

    name: str | None = None
    """Name of the port."""
    containerPort: int = Field(ge=1, le=65535)
    """Number of the port."""


class VolumeMount(Free):
    """A volume mounted in a container."""

    name: str = Field(min_length=1)
    """Name of the volume."""
    mountPath: str = Field(min_length=1)
    """Path in the container."""


class Resources(Free):
    """Resources that a container needs, and may use at most."""

    requests: dict[str, Quantity] | None = None
    """Resources that the container needs."""
    limits: dict[str, Quantity] | None = None
    """Resources that the container may use at most."""


class Container(Free):
    """A container, with any field that Kubernetes knows. Described are the fields that the operator reads."""

    name: str = Field(pattern=LABEL, max_length=63)
    """Name of the container."""
    image: str = Field(min_length=1)
    """Image of the container."""
    command: list[str] | None = None
    """Program that the container runs, in place of the image's own."""
    args: list[str] | None = None
    """Arguments of the program."""
    env: list[EnvironmentVariable] | None = None
    """Environment variables."""
    ports: list[ContainerPort] | None = None
    """Ports of the container."""
    volumeMounts: list[VolumeMount] | None = None
    """Mounted volumes."""
    resources: Resources | None = None
    """Resources of the container."""


class InitContainer(Free):
    """A container that runs before the others, with any field that Kubernetes knows."""

    name: str = Field(min_length=1)
    """Name of the container."""


class Volume(Free):
    """A volume of any kind."""

    name: str = Field(min_length=1)
    """Name of the volume."""


class PodSpec(Free):
    """Spec of a Pod, with any field that Kubernetes knows. Described are the fields that the operator reads."""

    containers: list[Container] = Field(min_length=1, max_length=MAX_CONTAINERS)
    """Containers of the Pod."""
    initContainers: list[InitContainer] | None = None
    """Containers that run before the others."""
    volumes: list[Volume] | None = None
    """Volumes of the Pod."""
    hostNetwork: bool | None = None
    """True if the Pods use their hosts' network."""
    dnsPolicy: str | None = None
    """Policy for resolving names."""
    schedulerName: str | None = None
    """Name of the Pods' scheduler."""
    serviceAccountName: str | None = None
    """Service account of the Pods."""


class PodMetadata(Free):
    """Labels and annotations of the Pods."""

    labels: dict[str, str] | None = None
    """Labels of the Pods."""
    annotations: dict[str, str] | None = None
    """Annotations of the Pods."""


class PodTemplate(Free):
    """A Pod as `kubectl explain pod` describes it: metadata and spec."""

    metadata: PodMetadata | None = None
    """Labels and annotations of the Pods."""
    spec: PodSpec
    """Spec of the Pods. Its `restartPolicy` gives way to the replica's."""


class ReplicaSpec(SchemaModel):
    """Replicas of one type."""

    replicas: int | None = Field(default=None, ge=0, le=MAX_REPLICAS)
    """Number of replicas; by default one."""
    template: PodTemplate
    """Template of their Pods."""
    restartPolicy: RestartPolicy | None = None
    """Treatment of a failed replica. With `ExitCode`, exit codes from 128 on are tried again, and 1 to 127 fail the
    job."""


class SchedulingPolicy(SchemaModel):
    """Rules for placing the Pods of a job together."""

    minAvailable: int | None = Field(default=None, ge=0, le=INT32)
    """Minimum number of Pods to be placed at once, passed on as it is; by default all."""
    queue: str | None = Field(
        default=None,
        json_schema_extra=validations(
            ("self == oldSelf", "spec.runPolicy.schedulingPolicy.queue is immutable")
        ),
    )
    """Queue of the gang scheduler."""
    minResources: dict[str, Quantity] | None = None
    """Minimum resources for all Pods together."""
    priorityClass: str | None = None
    """Priority class of the Pods' group."""
    scheduleTimeoutSeconds: int | None = Field(default=None, ge=0, le=INT32)
    """Longest time for which the scheduler waits until it can place all Pods."""


_MANAGED = (
    "has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",
    "spec.runPolicy.managedBy is immutable",
)


class RunPolicy(SchemaModel):
    """Deadline, restarts and clean-up of a job."""

    model_config = ConfigDict(json_schema_extra=validations(_MANAGED))

    cleanPodPolicy: CleanPodPolicy | None = None
    """Pods that are deleted when the job has finished: All, those that are still Running, or None."""
    ttlSecondsAfterFinished: int | None = Field(default=None, ge=0, le=INT32)
    """Time after the end of the job at which it is deleted; without it, never."""
    activeDeadlineSeconds: int | None = Field(default=None, ge=0, le=INT64)
    """Time after which an active job fails."""
    backoffLimit: int | None = Field(default=None, ge=0, le=INT32)
    """Number of restarts. The job fails when the kubelet reaches it, or when the operator would make one more."""
    schedulingPolicy: SchedulingPolicy | None = None
    """Rules for placing the Pods together."""
    suspend: bool | None = Field(default=None, json_schema_extra={"default": False})
    """True if the job is to have no Pods."""
    managedBy: Literal["", "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"] | None = None
    """Controller of the job; a job of another one than `kubeflow.org/training-operator` is left alone."""
