"""The examples that train, what each needs, and its conditions."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from steelyard_common.types import Json
from steelyard_kube.resource import (
    JAX_JOBS,
    MX_JOBS,
    PADDLE_JOBS,
    PYTORCH_JOBS,
    TF_JOBS,
    XGBOOST_JOBS,
    Resource,
)
from tests.engines.locked import environment

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "training"
LOCKS = ROOT / "requirements" / "frameworks"


@dataclass(frozen=True)
class Example:
    """One folder below examples/training."""

    name: str
    environment: str
    """Name in requirements/frameworks; its Pods' image is frameworks/<environment>."""
    jobs: Resource
    accuracy: float
    """Least accuracy on the images that were not trained with."""
    first: str
    last: str
    """Replicas: the one that leads, and a worker."""
    workers_alone: bool = False
    """True where a worker that died starts again alone: with a parameter server. Else the whole job does."""
    leader_ends: bool = True
    """True where the replica that leads has ended, with its result, when the job has. MXNet's scheduler ends
    first.
    """

    @property
    def job(self) -> str:
        return f"digits-{self.name}"

    def alone(self, victim: str) -> bool:
        """Return whether nothing else starts again when the replica dies."""
        return self.workers_alone and victim.startswith("worker")

    def python(self) -> Path:
        """The interpreter of its environment, made where there is none. Missing where it cannot be had."""
        return environment(self.environment, LOCKS / f"{self.environment}.txt", among="frameworks")

    def manifests(self, checkpoints: Path) -> tuple[Json, Json]:
        """The ConfigMap and the job, with its checkpoint in a folder of the test, telling of every step."""
        code, job = yaml.safe_load_all((FOLDER / self.name / "job.yaml").read_text())
        specs = next(value for name, value in job["spec"].items() if name.endswith("ReplicaSpecs"))
        for spec in specs.values():
            pod = spec["template"]["spec"]
            pod["volumes"][1]["hostPath"]["path"] = str(checkpoints)
            variable = {"name": "STEELYARD_PROGRESS_SECONDS", "value": "0"}
            env = [var for var in pod["containers"][0]["env"] if var["name"] != variable["name"]]
            pod["containers"][0]["env"] = [*env, variable]
        for manifest in (code, job):
            manifest["metadata"]["namespace"] = "default"
        return code, job


EXAMPLES = (
    Example("xgboost", "boosting", XGBOOST_JOBS, 0.92, "master-0", "worker-0"),
    Example("lightgbm", "boosting", XGBOOST_JOBS, 0.93, "master-0", "worker-0"),
    Example("mxnet", "mxnet", MX_JOBS, 0.93, "scheduler-0", "worker-1", leader_ends=False),
    Example("pytorch", "pytorch", PYTORCH_JOBS, 0.93, "master-0", "worker-1"),
    Example("tensorflow-mirrored", "tensorflow", TF_JOBS, 0.93, "worker-0", "worker-1"),
    Example("tensorflow-ps", "tensorflow", TF_JOBS, 0.93, "chief-0", "worker-1", workers_alone=True),
    Example("jax", "jax", JAX_JOBS, 0.93, "worker-0", "worker-1"),
    Example("paddle", "paddle", PADDLE_JOBS, 0.93, "worker-0", "worker-1"),
)
