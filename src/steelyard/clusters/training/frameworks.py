"""The number of workers as replica types of a framework's own kind of job.

Kinds, fields and container names are v1's; the operator has them, too, and a test holds the two together. A framework
that is not one of these is a resource of kind Framework, whose jobs are DLJobs.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from steelyard.clusters.names import MAX_REPLICAS
from steelyard.clusters.training.errors import BadJob
from steelyard_common.types import Json
from steelyard_kube.resource import (
    DL_JOBS,
    JAX_JOBS,
    MX_JOBS,
    PADDLE_JOBS,
    PYTORCH_JOBS,
    TF_JOBS,
    XGBOOST_JOBS,
    Resource,
)

WORKER = "Worker"


@dataclass(frozen=True)
class TrainingFramework:
    """The form of a framework's jobs."""

    name: str
    resource: Resource
    specs: str
    """The field below `spec` with the replica types."""
    container: str
    """The name that the container has to have."""
    module: str = ""
    """The module that programs import, and that the Python that runs them needs."""
    leader: str = ""
    """The replica type of one of the workers, where it has one of its own."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """Replica types that a job needs in addition to its workers, with their usual numbers."""
    spec: Json = field(default_factory=dict)
    """Further fields that its `spec` needs."""
    worker: str = WORKER
    known: tuple[str, ...] = ()
    """All its replica types."""

    def replicas(self, workers: int, given: Mapping[str, int]) -> dict[str, int]:
        """Return the number of replicas by type; `given` adds types and overrides. Raises BadJob."""
        _require_count(f"--workers {workers}", workers)
        counts = dict(self.beside)
        if self.leader and workers:
            counts[self.leader] = 1
        rest = workers - (1 if self.leader else 0)
        if rest > 0:
            counts[self.worker] = rest
        for name, count in given.items():
            role = next((known for known in self.known if known.lower() == name.lower()), None)
            if role is None:
                raise BadJob(
                    f"--replicas {name}={count}: {self.name} has no such replica type; "
                    f"there are {', '.join(self.known)}"
                )
            _require_count(f"--replicas {name}={count}", count)
            counts[role] = count
        counts = {role: counts[role] for role in self.known if counts.get(role)}
        if not counts:
            raise BadJob("the job would have no replica at all; give --workers 1 or more")
        return counts


def _require_count(flag: str, count: int) -> None:
    if not 0 <= count <= MAX_REPLICAS:
        raise BadJob(f"{flag}: should be from 0 to {MAX_REPLICAS}")


_TF = ("Chief", "Master", "PS", WORKER, "Evaluator")
_MX = ("Scheduler", "Server", WORKER, "TunerTracker", "TunerServer", "Tuner")
_TWO = ("Master", WORKER)

KNOWN = (
    TrainingFramework("pytorch", PYTORCH_JOBS, "pytorchReplicaSpecs", "pytorch", "torch", known=_TWO),
    TrainingFramework(
        "tensorflow",
        TF_JOBS,
        "tfReplicaSpecs",
        "tensorflow",
        "tensorflow",
        spec={"successPolicy": "AllWorkers"},
        known=_TF,
    ),
    TrainingFramework("jax", JAX_JOBS, "jaxReplicaSpecs", "jax", "jax", known=(WORKER,)),
    TrainingFramework(
        "xgboost", XGBOOST_JOBS, "xgbReplicaSpecs", "xgboost", "xgboost", leader="Master", known=_TWO
    ),
    TrainingFramework(
        "lightgbm", XGBOOST_JOBS, "xgbReplicaSpecs", "xgboost", "lightgbm", leader="Master", known=_TWO
    ),
    TrainingFramework(
        "mxnet",
        MX_JOBS,
        "mxReplicaSpecs",
        "mxnet",
        "mxnet",
        beside={"Scheduler": 1, "Server": 1},
        spec={"jobMode": "MXTrain"},
        known=_MX,
    ),
    TrainingFramework("paddle", PADDLE_JOBS, "paddleReplicaSpecs", "paddle", "paddle", known=_TWO),
)
BY_NAME = {framework.name: framework for framework in KNOWN} | {
    "torch": KNOWN[0],
    "tf": KNOWN[1],
    "xgb": KNOWN[3],
    "lgbm": KNOWN[4],
    "mx": KNOWN[5],
    "paddlepaddle": KNOWN[6],
}


def from_resource(framework: Json) -> TrainingFramework:
    """The framework that a resource of kind Framework describes."""
    spec, name = framework["spec"], framework["metadata"]["name"]
    roles = spec.get("roles") or [{"name": "worker"}]  # it takes any
    names = tuple(str(role["name"]) for role in roles)
    worker = next((name for name in names if name.lower() == "worker"), names[-1])
    # An optional role is started only if the user asks for it.
    beside = {
        str(role["name"]): int(role.get("default") or role["minimum"])
        for role in roles
        if role["name"] != worker and role.get("minimum")
    }
    return TrainingFramework(
        name=name,
        resource=DL_JOBS,
        specs="roles",
        container=spec.get("container") or "main",
        beside=beside,
        spec={"framework": name},
        worker=worker,
        known=names,
    )


def find_imported(source: str) -> TrainingFramework | None:
    """The framework whose module a program imports; None where it imports none, or more than one."""
    modules = imports(source)
    if "lightning" in modules or "pytorch_lightning" in modules:
        modules |= {"torch"}
    candidates = [framework for framework in KNOWN if framework.module in modules]
    return candidates[0] if len(candidates) == 1 else None


def imports(source: str) -> frozenset[str]:
    """The modules that a program imports itself, by their first names; none of one that cannot be read."""
    try:
        return frozenset(_modules(ast.parse(source)))
    except (SyntaxError, ValueError):
        return frozenset()


def _modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
