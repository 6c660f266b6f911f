"""Settings of all Pods that the platform makes: of steps, and of sessions. Table `[pods]` of the settings file.

Replicas of training jobs are their users' own, and have what their templates say.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from steelyard_schema.base import LABEL_KEY_PATTERN
from steelyard_schema.kubernetes import LABEL_VALUE_PATTERN, Quantity

LabelKey = Annotated[str, StringConstraints(pattern=LABEL_KEY_PATTERN, max_length=317)]
LabelValue = Annotated[str, StringConstraints(pattern=f"^$|{LABEL_VALUE_PATTERN}")]
ObjectName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", max_length=253)
]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Toleration(_Settings):
    """A toleration, with the names of Kubernetes."""

    key: str = Field(
        default="", max_length=317, description="Key of the taint; empty with Exists: every taint."
    )
    operator: Literal["Exists", "Equal"] = Field(default="Equal", description="How the value is compared.")
    value: LabelValue = Field(default="", description="Value of the taint.")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="", description="Effect of the taint; empty: every effect."
    )
    toleration_seconds: int | None = Field(
        default=None, ge=0, description="Time for which a Pod may stay; with NoExecute alone."
    )

    @model_validator(mode="after")
    def _check(self) -> "Toleration":
        if not self.key and self.operator != "Exists":
            raise ValueError("without a key the operator should be Exists")
        if self.operator == "Exists" and self.value:
            raise ValueError("with Exists there is no value")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("toleration_seconds needs the effect NoExecute")
        return self


class SpotSettings(_Settings):
    """Nodes that can be taken away at any time, for sessions that may use them (`useSpotPods`)."""

    node_selector: dict[LabelKey, LabelValue] = Field(
        default={}, description="Labels of such nodes, added to `pods.node_selector`."
    )
    tolerations: tuple[Toleration, ...] = Field(
        default=(), description="Tolerations of the taints of such nodes, added to `pods.tolerations`."
    )


class PodSettings(_Settings):
    """Settings of all Pods that the platform makes, of steps and of sessions."""

    pull_secrets: tuple[ObjectName, ...] = Field(
        default=(),
        description="Names of Secrets with which images are pulled. They have to be in each account's namespace, "
        "where `orchestrator.pull_secrets` puts them.",
    )
    node_selector: dict[LabelKey, LabelValue] = Field(default={}, description="Labels that nodes must have.")
    tolerations: tuple[Toleration, ...] = Field(default=(), description="Taints of nodes that are tolerated.")
    priority_class: ObjectName | None = Field(default=None, description="Name of a PriorityClass.")
    runtime_class: ObjectName | None = Field(
        default=None, description="Name of a RuntimeClass, such as one of gVisor."
    )
    cpu_limit: Quantity | None = Field(
        default=None,
        description="Limit of processors of a container without one, or its request where that is more. A "
        "ResourceQuota on limits.cpu refuses Pods without one. Absent: none.",
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default={}, description="Further labels; those of the platform itself stay."
    )
    annotations: dict[LabelKey, str] = Field(default={}, description="Annotations.")
    spot: SpotSettings = Field(
        default=SpotSettings(),
        description="Nodes that can be taken away, for sessions with useSpotPods. Empty: the same as other nodes.",
    )
