"""The custom resources: an entity's immutable fields, and all that its workflow needs, so that it looks nothing up."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from steelyard_schema.analysis import AnalysisFields
from steelyard_schema.audit import AuditFields
from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import FEW, MANY, Line, Natural, Word
from steelyard_schema.data_source import DataSourceFields
from steelyard_schema.dataset import DatasetFields
from steelyard_schema.evaluation import EvaluationFields
from steelyard_schema.inference_service import InferenceServiceFields
from steelyard_schema.inference_session import InferenceSessionFields
from steelyard_schema.kubernetes import LABEL_VALUE_PATTERN
from steelyard_schema.locations import LOCATION_PATTERN, check_location
from steelyard_schema.model import ModelFields
from steelyard_schema.report import ReportFields
from steelyard_schema.secrets import SecretObjects

GROUP = "dyff.io"
VERSION = "v1alpha1"

Location = Annotated[
    str,
    AfterValidator(check_location),
    Field(json_schema_extra={"pattern": LOCATION_PATTERN, "maxLength": 1024}),
]


class Storage(SchemaModel):
    """Locations that the workflow reads and writes."""

    inputs: Annotated[dict[Word, Location], MANY] = Field(default_factory=dict)
    """Locations of inputs by key: URLs, or prefixes below the setting `storage`."""
    output: Location | None = None
    """Location of the output."""
    secret: Word | None = None
    """Name of the Secret with credentials, in the resource's namespace."""


class ResourceSpec(SchemaModel):
    """Fields of every custom resource's spec besides those of its entity."""

    id: str = Field(pattern=LABEL_VALUE_PATTERN, max_length=63)
    """Id of the entity."""
    account: Word
    """Account that owns the entity."""
    ttlSecondsAfterFinished: Natural | None = None
    """Time after the end of the workflow at which the resource is deleted; without it, never."""
    secrets: SecretObjects | None = None
    """Kubernetes Secrets that the workflow needs."""


class StoredSpec(ResourceSpec):
    """Spec of the kinds whose entity has no field `storage` of its own."""

    names: Annotated[dict[Word, Word], FEW] = Field(default_factory=dict)
    """Names of the entities that fields refer to, by field; pages show them."""
    storage: Storage = Field(default_factory=Storage)
    """Locations that the workflow reads and writes."""


class EvaluationResourceSpec(EvaluationFields, StoredSpec):
    """Every row of a dataset, asked of an inference service, with verified outputs."""


class InferenceSessionResourceSpec(InferenceSessionFields, StoredSpec):
    """Replicas of an InferenceService that run for a while."""


class InferenceServiceResourceSpec(InferenceServiceFields, StoredSpec):
    """A model's server: the program, its resources, and the form of its requests and answers."""


class ModelStorageLocations(Storage):
    """Locations of the model's source and of its stored files; `medium` is the entity's `storage.medium`."""

    medium: Word | None = Field(default=None, pattern="^(Mock|ObjectStorage|PersistentVolume|FUSEVolume)$")
    """Kind of medium: Mock, ObjectStorage, PersistentVolume or FUSEVolume."""


class ModelResourceSpec(ModelFields, ResourceSpec):
    """Files of a model, fetched once and stored with their digests."""

    storage: ModelStorageLocations = Field(default_factory=ModelStorageLocations)  # type: ignore[assignment]
    """Locations of the model's source and of its stored files."""


class DataSourceResourceSpec(DataSourceFields, StoredSpec):
    """Files of a place outside, fetched once and stored with their digests."""

    files: Annotated[list[Line], FEW] = Field(default_factory=list)
    """Patterns of files to fetch; without them, all files."""


class DatasetResourceSpec(DatasetFields, StoredSpec):
    """Rows that are made from the files of a DataSource."""

    dataSource: Word
    """Id of the DataSource."""
    files: Annotated[list[Line], FEW] = Field(default_factory=list)
    """Patterns of the DataSource's files that hold the rows; without them, all files of a known form."""


class ReportResourceSpec(ReportFields, StoredSpec):
    """The verified outputs of an evaluation, scored by a rubric."""


class AuditResourceSpec(AuditFields, StoredSpec):
    """Several reports about one inference service, in one document."""


class AnalysisResourceSpec(AnalysisFields, StoredSpec):
    """A method, applied to data: it makes a measurement or a safety case, as `method.output.kind` says."""


@dataclass(frozen=True)
class ResourceKind:
    """A kind of resource: its names, its spec, and the condition types that are always present."""

    kind: str
    plural: str
    short_names: tuple[str, ...]
    spec: type[ResourceSpec]
    conditions: tuple[str, ...]

    @property
    def singular(self) -> str:
        return self.kind.lower()


_BASE = ("Progressing", "Failed", "Finished")

RESOURCES: dict[str, ResourceKind] = {
    kind.kind: kind
    for kind in (
        ResourceKind("Analysis", "analyses", ("ana",), AnalysisResourceSpec, (*_BASE, "Complete")),
        ResourceKind("Audit", "audits", ("aud",), AuditResourceSpec, (*_BASE, "Complete")),
        ResourceKind("DataSource", "datasources", ("dsrc",), DataSourceResourceSpec, (*_BASE, "Ready")),
        ResourceKind("Dataset", "datasets", ("ds",), DatasetResourceSpec, (*_BASE, "Ready")),
        ResourceKind("Evaluation", "evaluations", ("eval",), EvaluationResourceSpec, (*_BASE, "Complete")),
        ResourceKind(
            "InferenceService",
            "inferenceservices",
            ("isvc",),
            InferenceServiceResourceSpec,
            (*_BASE, "Ready"),
        ),
        ResourceKind(
            "InferenceSession",
            "inferencesessions",
            ("isess",),
            InferenceSessionResourceSpec,
            (*_BASE, "Ready", "Expired"),
        ),
        ResourceKind("Model", "models", ("mdl",), ModelResourceSpec, (*_BASE, "Ready")),
        ResourceKind("Report", "reports", ("rep",), ReportResourceSpec, (*_BASE, "Complete")),
    )
}
