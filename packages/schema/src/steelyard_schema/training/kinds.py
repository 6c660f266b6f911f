"""The kinds of training jobs: their names, their specs, and their subresources."""

from dataclasses import dataclass

from steelyard_schema.base import SchemaModel
from steelyard_schema.resources import GROUP, VERSION
from steelyard_schema.training import dl_job, kubeflow
from steelyard_schema.training.rules import NAME, Rule, name_rules

KUBEFLOW = "kubeflow.org"


@dataclass(frozen=True)
class TrainingKind:
    """A kind of training job."""

    kind: str
    spec: type[SchemaModel]
    replicas: str
    """Field with the replica types; empty for Framework, which lacks it."""
    group: str = KUBEFLOW
    version: str = "v1"
    unnumbered: tuple[str, ...] = ()
    """Replica types whose one Pod has no index in its name."""
    scalable: str = ""
    """Replica type that the scale subresource scales."""
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    job: bool = True

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def rules(self) -> list[Rule]:
        """Return the CEL rules for the whole object."""
        return name_rules(self.replicas, self.unnumbered) if self.replicas else [NAME]


TRAINING: dict[str, TrainingKind] = {
    kind.kind: kind
    for kind in (
        TrainingKind("TFJob", kubeflow.TFJobSpec, kubeflow.TENSORFLOW.field),
        TrainingKind("PyTorchJob", kubeflow.PyTorchJobSpec, kubeflow.PYTORCH.field, scalable="Worker"),
        TrainingKind("MXJob", kubeflow.MXJobSpec, kubeflow.MXNET.field),
        TrainingKind("JAXJob", kubeflow.JAXJobSpec, kubeflow.JAX.field, scalable="Worker"),
        TrainingKind("XGBoostJob", kubeflow.XGBoostJobSpec, kubeflow.XGBOOST.field),
        TrainingKind("PaddleJob", kubeflow.PaddleJobSpec, kubeflow.PADDLE.field, scalable="Worker"),
        TrainingKind("MPIJob", kubeflow.MPIJobSpec, kubeflow.MPI.field, unnumbered=("Launcher",)),
        TrainingKind("DLJob", dl_job.DLJobSpec, "roles", GROUP, VERSION, short_names=("dlj",)),
        TrainingKind(
            "Framework",
            dl_job.FrameworkSpec,
            "",
            GROUP,
            VERSION,
            short_names=("fw",),
            namespaced=False,
            job=False,
        ),
    )
}
"""All kinds, in the order of a page about them."""
