"""The specs of the kinds of `kubeflow.org/v1`, field for field as users' manifests have them."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from steelyard_common.types import Json
from steelyard_schema.base import SchemaModel
from steelyard_schema.training.common import INT32, MAX_ROLES, ReplicaSpec, RunPolicy, validations
from steelyard_schema.training.rules import Types, replica_type_rules


class JobSpec(SchemaModel):
    """Fields of all kinds' specs."""

    # An API server fills in the defaults of an object's fields only where the object itself is there.
    runPolicy: RunPolicy | None = Field(default=None, json_schema_extra={"default": {}})
    """Deadline, restarts and clean-up."""


def replicas(types: Types) -> Any:
    """Return a field with replicas by type, checked by CEL rules."""
    return Field(
        json_schema_extra={
            "minProperties": 1,
            "maxProperties": MAX_ROLES,
            **validations(*replica_type_rules(types)),
        }
    )


TENSORFLOW = Types(
    "tfReplicaSpecs",
    ("Chief", "Master", "PS", "Worker", "Evaluator"),
    "tensorflow",
    single=("Chief", "Master"),
    one_of=("Chief", "Master"),
)


class TFJobSpec(JobSpec):
    """Training with TensorFlow: parameter servers, or workers that mirror one another."""

    tfReplicaSpecs: dict[str, ReplicaSpec] = replicas(TENSORFLOW)
    """Replicas by type: Chief or Master, PS, Worker, Evaluator."""
    successPolicy: Literal["", "AllWorkers"] | None = None
    """Rule for success. Without a Chief, the job has succeeded when worker 0 has, or with `AllWorkers` when all have.
    """
    enableDynamicWorker: bool | None = None
    """True if workers may come and go: each knows only the parameter servers and itself, and a failed one does not fail
    the job."""


class RendezvousSetting(SchemaModel):
    """A further setting of the rendezvous."""

    key: str
    """Name of the setting."""
    value: str
    """Value of the setting."""


_BOUNDS = (
    "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
    "spec.elasticPolicy.minReplicas: is more than maxReplicas",
)


class Bounds(SchemaModel):
    """Minimum and maximum number of workers."""

    model_config = ConfigDict(json_schema_extra=validations(_BOUNDS))

    minReplicas: int | None = Field(default=None, ge=0, le=INT32)
    """Minimum number of workers; by default `maxReplicas`, or as many as there are."""
    maxReplicas: int | None = Field(default=None, ge=0, le=INT32)
    """Maximum number of workers; by default `minReplicas`, or as many as there are."""
    maxRestarts: int | None = Field(default=None, ge=0, le=INT32)
    """Number of times that the launcher restarts the workers' processes."""
    metrics: list[Json] | None = None
    """Metrics by which a HorizontalPodAutoscaler scales the workers."""


class ElasticPolicy(Bounds):
    """Number of workers that may change while the job runs, as `torchrun` allows."""

    rdzvBackend: Literal["c10d", "etcd", "etcd-v2"] | None = None
    """Backend by which workers find each other; by default c10d."""
    rdzvPort: int | None = Field(default=None, ge=1, le=65535)
    """Port of the rendezvous; by default worker 0's."""
    rdzvHost: str | None = None
    """Host of the rendezvous; by default worker 0."""
    rdzvId: str | None = None
    """Name of the rendezvous."""
    rdzvConf: list[RendezvousSetting] | None = None
    """Further settings of the rendezvous."""
    standalone: bool | None = None
    """True if all workers are on one machine."""
    nProcPerNode: int | None = Field(default=None, ge=1, le=INT32)
    """Older name of `nprocPerNode`."""


PYTORCH = Types(
    "pytorchReplicaSpecs", ("Master", "Worker"), "pytorch", single=("Master",), at_least_one=("Worker",)
)
# The older operator took a type's name in any case, and users' manifests have `worker` as well.
_ELASTIC_NEEDS_WORKERS = (
    "!has(self.elasticPolicy) || self.pytorchReplicaSpecs.exists(k, k.matches('(?i)^worker$'))",
    "spec.elasticPolicy: needs the type Worker",
)
_ONE_PROCESSES = (
    "!has(self.nprocPerNode) || !has(self.elasticPolicy) || !has(self.elasticPolicy.nProcPerNode)",
    "spec.elasticPolicy.nProcPerNode: spec.nprocPerNode says it already; give one of them",
)


class PyTorchJobSpec(JobSpec):
    """Training with PyTorch: a master and workers, or workers alone."""

    model_config = ConfigDict(json_schema_extra=validations(_ELASTIC_NEEDS_WORKERS, _ONE_PROCESSES))

    pytorchReplicaSpecs: dict[str, ReplicaSpec] = replicas(PYTORCH)
    """Replicas by type: Master, Worker."""
    elasticPolicy: ElasticPolicy | None = None
    """Number of workers that may change while the job runs."""
    nprocPerNode: str | None = Field(default=None, max_length=16)
    """Number of processes per Pod, for `torchrun`: `auto`, `cpu`, `gpu` or a number; by default auto."""


MXNET = Types(
    "mxReplicaSpecs", ("Scheduler", "Server", "Worker", "TunerTracker", "TunerServer", "Tuner"), "mxnet"
)


class MXJobSpec(JobSpec):
    """Training with MXNet: a scheduler, servers and workers of ps-lite; or tuning with TVM."""

    jobMode: Literal["MXTrain", "MXTune"]
    """Mode of the job: MXTrain, or MXTune for tuning."""
    mxReplicaSpecs: dict[str, ReplicaSpec] = replicas(MXNET)
    """Replicas by type: Scheduler, Server, Worker; TunerTracker, TunerServer, Tuner."""


JAX = Types("jaxReplicaSpecs", ("Worker",), "jax", required=("Worker",), at_least_one=("Worker",))


class JAXJobSpec(JobSpec):
    """Training with JAX: processes that meet at worker 0."""

    jaxReplicaSpecs: dict[str, ReplicaSpec] = replicas(JAX)
    """Replicas by type: Worker."""


XGBOOST = Types("xgbReplicaSpecs", ("Master", "Worker"), "xgboost", required=("Master",), single=("Master",))


class XGBoostJobSpec(JobSpec):
    """Training with XGBoost or LightGBM: a master and workers."""

    xgbReplicaSpecs: dict[str, ReplicaSpec] = replicas(XGBOOST)
    """Replicas by type: Master, Worker."""


PADDLE = Types("paddleReplicaSpecs", ("Master", "Worker"), "paddle")


class PaddleJobSpec(JobSpec):
    """Training with PaddlePaddle: workers alone, or with a master as parameter server."""

    paddleReplicaSpecs: dict[str, ReplicaSpec] = replicas(PADDLE)
    """Replicas by type: Master, Worker."""
    elasticPolicy: Bounds | None = None
    """Number of workers that may change while the job runs."""


MPI = Types("mpiReplicaSpecs", ("Launcher", "Worker"), required=("Launcher",), single=("Launcher",))
_ONE_CLEAN_UP = (
    "!has(self.cleanPodPolicy) || !has(self.runPolicy) || !has(self.runPolicy.cleanPodPolicy)"
    " || self.cleanPodPolicy == self.runPolicy.cleanPodPolicy",
    "spec.cleanPodPolicy: spec.runPolicy.cleanPodPolicy says something else",
)


class MPIJobSpec(JobSpec):
    """Training with MPI: a launcher that starts processes on workers."""

    model_config = ConfigDict(json_schema_extra=validations(_ONE_CLEAN_UP))

    mpiReplicaSpecs: dict[str, ReplicaSpec] = replicas(MPI)
    """Replicas by type: Launcher, Worker."""
    slotsPerWorker: int | None = Field(default=None, ge=1, le=INT32)
    """Number of processes per worker; by default one."""
    mainContainer: str | None = None
    """Container of the workers in which processes are started."""
    cleanPodPolicy: Literal["All", "Running", "None"] | None = None
    """Older place of `runPolicy.cleanPodPolicy`."""
