"""What the kinds of training jobs share: Pod templates, replicas, and the run policy.

A template is the user's own: what is not named here is kept as it is, and the API server of Pods has the last word.
Contract: Kubeflow Training Operator 1.9.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from steelyard.schema.base import SchemaModel

Json = dict[str, Any]

RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]
Scope = Literal["Pod", "ReplicaType", "Job"]
CleanPodPolicy = Literal["All", "Running", "None"]

LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
MAX_ROLES, MAX_CONTAINERS = 16, 32


def validations(*rules: tuple[str, str]) -> Json:
    """Of a schema: CEL rules, each with what is said when it does not hold."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


class Free(SchemaModel):
    """A model that keeps what it does not know."""

    model_config = ConfigDict(extra="allow")


class Container(Free):
    """One container: any field of a Pod's."""

    name: str = Field(pattern=LABEL, max_length=63)
    """Name."""
    image: str = Field(min_length=1)
    """Image."""


class PodSpec(Free):
    """Any field of a Pod's spec."""

    containers: list[Container] = Field(min_length=1, max_length=MAX_CONTAINERS)
    """Containers."""


class PodTemplate(Free):
    """A Pod as `kubectl explain pod` describes it: metadata and spec."""

    metadata: Json | None = None
    """Labels and annotations of the Pods."""
    spec: PodSpec
    """The Pod's spec. Its `restartPolicy` gives way to the replica's."""


class ReplicaSpec(SchemaModel):
    """Replicas of one type."""

    replicas: int | None = Field(default=None, ge=0, le=10000)
    """How many; absent: one."""
    template: PodTemplate
    """Their Pods."""
    restartPolicy: RestartPolicy | None = None
    """What happens when one fails. `ExitCode`: 128 and above are tried again, 1 to 127 fail the job."""


class SchedulingPolicy(SchemaModel):
    """How the Pods of a job are placed together."""

    minAvailable: int | None = Field(default=None, ge=0)
    """Pods that have to be placed at once; absent: all."""
    queue: str | None = Field(
        default=None,
        json_schema_extra=validations(
            ("self == oldSelf", "spec.runPolicy.schedulingPolicy.queue is immutable")
        ),
    )
    """Queue of the gang scheduler."""
    minResources: dict[
        str, Annotated[int | str, Field(json_schema_extra={"x-kubernetes-int-or-string": True})]
    ] | (None) = None
    """Resources that have to be there for all Pods together."""
    priorityClass: str | None = None
    """Priority class of the Pods' group."""
    scheduleTimeoutSeconds: int | None = Field(default=None, ge=0)
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
    ttlSecondsAfterFinished: int | None = Field(default=None, ge=0)
    """The job is deleted so many seconds after it has finished; absent: never."""
    activeDeadlineSeconds: int | None = Field(default=None, ge=0)
    """The job fails when it has been active for longer."""
    backoffLimit: int | None = Field(default=None, ge=0)
    """Restarts of the job or parts of it; one more failure fails it."""
    schedulingPolicy: SchedulingPolicy | None = None
    """How the Pods are placed together."""
    suspend: bool | None = Field(default=None, json_schema_extra={"default": False})
    """While true, the job has no Pods."""
    managedBy: Literal["", "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"] | None = None
    """Who looks after the job; another one than `kubeflow.org/training-operator` is left to do so."""
