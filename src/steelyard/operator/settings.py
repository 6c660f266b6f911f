"""The operator's settings. `steelyard.settings` reads them from the one settings file."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from steelyard.operator.pod_settings import PodSettings
from steelyard.operator.ray.settings import RaySettings
from steelyard.telemetry.monitoring import Listen
from steelyard_common.awake import NO_SLEEPS, Sleeps
from steelyard_schema.egress import EgressSettings
from steelyard_schema.kubernetes import Quantity
from steelyard_schema.quantity import amount
from steelyard_schema.steps import SourceLimits

LONGEST = 2**31 - 1
"""Seconds of a setting: 68 years, which any time of ours can be put off by."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Images(_Settings):
    """Images of our own programs; a tag or a digest may follow a name."""

    steps: str = Field(default="localhost/steelyard/steps", description="The workflow steps.")
    mock: str = Field(default="localhost/steelyard/runner-mock", description="Runners of kind mock.")
    runners: Mapping[str, str] = Field(
        default={},
        description="Names by which a cluster pulls the runners that services name as localhost/steelyard/NAME, such "
        "as runner-sklearn, by NAME.",
    )


class StepResources(_Settings):
    """Requests and limits of a step's container, in Kubernetes quantities."""

    cpu: Quantity = Field(default="100m", description="Requested processors.")
    memory: Quantity = Field(default="256Mi", description="Requested memory.")
    memory_limit: Quantity = Field(default="2Gi", description="Memory above which the step is ended.")

    @model_validator(mode="after")
    def _check(self) -> "StepResources":
        if amount(self.memory) > amount(self.memory_limit):
            raise ValueError(
                f"memory is {self.memory}, and should be at most memory_limit, {self.memory_limit}"
            )
        return self


class TrainingSettings(_Settings):
    """Settings for training jobs. Times are in seconds."""

    kinds: tuple[str, ...] = Field(
        default=("TFJob", "PyTorchJob", "MXJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob", "DLJob"),
        description="The kinds that this operator looks after; leave out those of another operator.",
    )
    gang_scheduler: str = Field(
        default="",
        description="Makes a PodGroup per job: volcano, or the name of a scheduler with the coscheduling plugin.",
    )
    backoff_limit: int | None = Field(
        default=6,
        ge=0,
        le=LONGEST,
        description="Restarts of a job that gives no runPolicy.backoffLimit; null: no limit.",
    )
    restart_delay_seconds: float = Field(
        default=10.0,
        ge=0,
        le=LONGEST,
        description="Before the second restart, doubled for each further one; the first waits not.",
    )
    longest_restart_delay_seconds: float = Field(
        default=300.0, ge=0, le=LONGEST, description="The most that doubling reaches."
    )
    termination_seconds: int = Field(
        default=60,
        ge=1,
        le=LONGEST,
        description="After its grace period, a Pod on a lost node is deleted by force.",
    )
    node_lost_seconds: int = Field(
        default=120, ge=1, le=LONGEST, description="A Pod whose node has been lost for so long is replaced."
    )
    outputs: str = Field(
        default="",
        description="On one machine: the folder of jobs' outputs. Absent: one of the state folder, with the embedded "
        "Kubernetes. Empty: each job needs a persistentVolumeClaim.",
    )
    storage_secret: str = Field(
        default="",
        description="Secret in a job's namespace with which its output is carried to storage; empty: that of "
        "`operator.storage_secret`.",
    )
    cluster_domain: str = Field(
        default="", description="Appended to host names in TF_CONFIG, as v1's operator does."
    )
    kubectl_delivery_image: str = Field(
        default="mpioperator/kubectl-delivery",
        description="MPIJob: the image that brings kubectl to the launcher; empty: its own image has it.",
    )


class OperatorSettings(_Settings):
    """The operator's settings. Times are in seconds."""

    storage: str = Field(
        default="",
        description="URL that locations without a scheme lie below, as workflows reach the storage; by default that "
        "of `storage`.",
    )
    storage_secret: str = Field(
        default="",
        max_length=255,
        description="Secret in a resource's namespace with which its Pods open the storage, where the resource names "
        "none (`spec.storage.secret`). Empty: they need none.",
    )
    images: Images = Field(default=Images(), description="Images of our own programs.")
    data_sources: SourceLimits = Field(
        default=SourceLimits(), description="Bounds of the files taken from a data source."
    )
    training: TrainingSettings = Field(default=TrainingSettings(), description="Training jobs.")
    ray: RaySettings = Field(default=RaySettings(), description="Ray clusters.")
    frameworks: Mapping[str, dict[str, Any]] = Field(
        default={},
        exclude=True,
        description="Resources of kind Framework by name: from the cluster, not from a file.",
    )
    egress: EgressSettings = Field(
        default=EgressSettings(),
        exclude=True,
        description="Addresses outside that steps may call: from the table [egress].",
    )
    pods: PodSettings = Field(
        default=PodSettings(),
        exclude=True,
        description="Settings of all Pods that the operator makes: from the table [pods].",
    )
    hub: str = Field(
        default="",
        description="URL of a mirror of the Hugging Face hub, from which models are fetched; its host has to be among "
        "egress.sources. Absent: the hub itself.",
    )
    sleeps: Sleeps = Field(
        default=NO_SLEEPS, exclude=True, description="When the machine slept: measured, not from a file."
    )
    step_resources: StepResources = Field(
        default=StepResources(), description="What a step's container gets."
    )
    max_attempts: int = Field(default=3, ge=1, description="Counted attempts of a step.")
    retry_seconds: float = Field(
        default=10.0,
        ge=0,
        le=LONGEST,
        description="Pause before the second attempt of a step, doubled before each further one; at most 10 minutes.",
    )
    input_seconds: int = Field(
        default=86_400,
        ge=0,
        le=LONGEST,
        description="Time for which a step that was made with kubectl waits for an input that is not in storage yet.",
    )
    step_pod_seconds: int = Field(
        default=15,
        ge=0,
        le=LONGEST,
        description="Time after which a step's Job that has no Pod is looked into; 0: never.",
    )
    step_deadline_seconds: int = Field(
        default=3600, ge=1, description="Longest time of a step other than the client."
    )
    session_start_seconds: int = Field(
        default=1800, ge=1, description="A session has a ready replica by then."
    )
    image_error_seconds: int = Field(default=600, ge=1, description="How long an image may be missing.")
    node_lost_seconds: int = Field(default=120, ge=1, description="How long a Pod may be on a lost node.")
    runner_restarts: int = Field(
        default=5, ge=1, description="Restarts without a ready replica that fail a session."
    )
    workers: int = Field(default=16, ge=1, description="Resources reconciled at the same time.")
    metrics: Listen | None = Field(
        default=None,
        description="HOST:PORT where /metrics, /healthz and /readyz are served; :PORT is every address, empty none. "
        "Absent: :8080 in a cluster's Pod, else a free port of 127.0.0.1, which is in operator-metrics of the folder.",
    )
    namespace: str | None = Field(default=None, description="The only namespace to look at; absent: all.")
    lease_namespace: str = Field(
        default="default",
        min_length=1,
        description="Namespace of the leader's lease. Absent: the setting `lease_namespace`.",
    )
