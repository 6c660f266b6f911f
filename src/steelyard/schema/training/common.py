"""What the kinds of training jobs share: Pod templates, replicas, and the run policy.

A template is the user's own: what is not named here is kept as it is, and the API server of Pods has the last word.
Contract: Kubeflow Training Operator 1.9.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from steelyard.schema.base import SchemaModel
from steelyard.types import Json

RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]
Scope = Literal["Pod", "ReplicaType", "Job"]
CleanPodPolicy = Literal["All", "Running", "None"]

LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
MAX_ROLES, MAX_CONTAINERS, MAX_REPLICAS = 16, 32, 10_000
INT32, INT64 = 2**31 - 1, 2**63 - 1
"""The largest numbers of v1's fields, which are of Go's types."""

Quantity = Annotated[int | str, Field(json_schema_extra={"x-kubernetes-int-or-string": True})]


def validations(*rules: tuple[str, str]) -> Json:
    """Of a schema: CEL rules, each with what is said when it does not hold."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


class Free(SchemaModel):
    """A model that keeps what it does not know."""

    model_config = ConfigDict(extra="allow")


class EnvironmentVariable(Free):
    """One variable."""

    name: str = Field(min_length=1)
    """Name."""
    value: str | None = None
    """Text."""


class ContainerPort(Free):
    """One port."""

    name: str | None = None
    """Name."""
    containerPort: int = Field(ge=1, le=65535)
    """Number."""


class VolumeMount(Free):
    """One mounted volume."""

    name: str = Field(min_length=1)
    """Name of the volume."""
    mountPath: str = Field(min_length=1)
    """Path in the container."""


class Resources(Free):
    """What a container needs and may use."""

    requests: dict[str, Quantity] | None = None
    """What it needs."""
    limits: dict[str, Quantity] | None = None
    """What it may use."""


class Container(Free):
    """One container: any field of a Pod's. Described is what the operator itself reads."""

    name: str = Field(pattern=LABEL, max_length=63)
    """Name."""
    image: str = Field(min_length=1)
    """Image."""
    command: list[str] | None = None
    """Program."""
    args: list[str] | None = None
    """Its arguments."""
    env: list[EnvironmentVariable] | None = None
    """Variables."""
    ports: list[ContainerPort] | None = None
    """Ports."""
    volumeMounts: list[VolumeMount] | None = None
    """Mounted volumes."""
    resources: Resources | None = None
    """Resources."""


class InitContainer(Free):
    """One container that runs before the others: any field of a Pod's."""

    name: str = Field(min_length=1)
    """Name."""


class Volume(Free):
    """One volume of any kind."""

    name: str = Field(min_length=1)
    """Name."""


class PodSpec(Free):
    """Any field of a Pod's spec. Described is what the operator itself reads."""

    containers: list[Container] = Field(min_length=1, max_length=MAX_CONTAINERS)
    """Containers."""
    initContainers: list[InitContainer] | None = None
    """Containers that run before those."""
    volumes: list[Volume] | None = None
    """Volumes."""
    hostNetwork: bool | None = None
    """Whether the Pods are on their hosts' network."""
    dnsPolicy: str | None = None
    """How names are looked up."""
    schedulerName: str | None = None
    """Scheduler of the Pods."""
    serviceAccountName: str | None = None
    """Account of the Pods."""


class PodMetadata(Free):
    """Labels and annotations of the Pods."""

    labels: dict[str, str] | None = None
    """Labels."""
    annotations: dict[str, str] | None = None
    """Annotations."""


class PodTemplate(Free):
    """A Pod as `kubectl explain pod` describes it: metadata and spec."""

    metadata: PodMetadata | None = None
    """Labels and annotations of the Pods."""
    spec: PodSpec
    """The Pod's spec. Its `restartPolicy` gives way to the replica's."""


class ReplicaSpec(SchemaModel):
    """Replicas of one type."""

    replicas: int | None = Field(default=None, ge=0, le=MAX_REPLICAS)
    """How many; absent: one."""
    template: PodTemplate
    """Their Pods."""
    restartPolicy: RestartPolicy | None = None
    """What happens when one fails. `ExitCode`: 128 and above are tried again, 1 to 127 fail the job."""


class SchedulingPolicy(SchemaModel):
    """How the Pods of a job are placed together."""

    minAvailable: int | None = Field(default=None, ge=0, le=INT32)
    """Pods that have to be placed at once, passed on as it is; absent: all."""
    queue: str | None = Field(
        default=None,
        json_schema_extra=validations(
            ("self == oldSelf", "spec.runPolicy.schedulingPolicy.queue is immutable")
        ),
    )
    """Queue of the gang scheduler."""
    minResources: dict[str, Quantity] | None = None
    """Resources that have to be there for all Pods together."""
    priorityClass: str | None = None
    """Priority class of the Pods' group."""
    scheduleTimeoutSeconds: int | None = Field(default=None, ge=0, le=INT32)
    """How long the scheduler waits for the whole group."""


_MANAGED = (
    "has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",
    "spec.runPolicy.managedBy is immutable",
)


class RunPolicy(SchemaModel):
    """How long a job may take, how often it may be tried again, and what is left of it afterwards."""

    model_config = ConfigDict(json_schema_extra=validations(_MANAGED))

    cleanPodPolicy: CleanPodPolicy | None = None
    """Which Pods are deleted when the job has finished: all, those that still run, or none."""
    ttlSecondsAfterFinished: int | None = Field(default=None, ge=0, le=INT32)
    """The job is deleted so many seconds after it has finished; absent: never."""
    activeDeadlineSeconds: int | None = Field(default=None, ge=0, le=INT64)
    """The job fails when it has been active for longer."""
    backoffLimit: int | None = Field(default=None, ge=0, le=INT32)
    """Restarts of the job or parts of it; one more failure fails it."""
    schedulingPolicy: SchedulingPolicy | None = None
    """How the Pods are placed together."""
    suspend: bool | None = Field(default=None, json_schema_extra={"default": False})
    """While true, the job has no Pods."""
    managedBy: Literal["", "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"] | None = None
    """Who looks after the job; another one than `kubeflow.org/training-operator` is left to do so."""
