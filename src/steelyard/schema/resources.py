"""The custom resources: a published entity's immutable fields, and what a resource needs so as to look nothing up."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from steelyard.schema.audit import AuditFields
from steelyard.schema.base import SchemaModel
from steelyard.schema.bounds import FEW, MANY, Natural, Word
from steelyard.schema.evaluation import EvaluationFields
from steelyard.schema.inference_service import InferenceServiceFields
from steelyard.schema.inference_session import InferenceSessionFields
from steelyard.schema.locations import LOCATION_PATTERN, check_location
from steelyard.schema.model import ModelFields
from steelyard.schema.report import ReportFields

GROUP = "dyff.io"
VERSION = "v1alpha1"
LABEL_VALUE_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"

Location = Annotated[
    str,
    AfterValidator(check_location),
    Field(json_schema_extra={"pattern": LOCATION_PATTERN, "maxLength": 1024}),
]


class Storage(SchemaModel):
    """Where the workflow reads and writes."""

    inputs: Annotated[dict[Word, Location], MANY] = Field(default_factory=dict)
    """Locations by key: URLs, or prefixes below the setting `storage`."""
    output: Location | None = None
    """Location of the output."""
    secret: Word | None = None
    """Secret with credentials, in the resource's namespace."""


class ResourceSpec(SchemaModel):
    """What the spec of every kind has besides its entity's fields."""

    id: str = Field(pattern=LABEL_VALUE_PATTERN, max_length=63)
    """Id of the entity."""
    account: Word
    """The account that owns it."""
    ttlSecondsAfterFinished: Natural | None = None
    """The resource is deleted so many seconds after it has finished; absent: never."""


class StoredSpec(ResourceSpec):
    """For the kinds whose entity has no field `storage` of its own."""

    names: Annotated[dict[Word, Word], FEW] = Field(default_factory=dict)
    """What the entities that the fields refer to are called, by the field; pages show it."""
    storage: Storage = Field(default_factory=Storage)
    """Where the workflow reads and writes."""


class EvaluationResourceSpec(EvaluationFields, StoredSpec):
    """Every row of a dataset, asked of an inference service, with verified outputs."""


class InferenceSessionResourceSpec(InferenceSessionFields, StoredSpec):
    """Replicas of an InferenceService that run for a while."""


class InferenceServiceResourceSpec(InferenceServiceFields, StoredSpec):
    """How a model is served, and how it is asked."""


class ModelStorageLocations(Storage):
    """Where the model comes from and where it is kept; `medium` is the published entity's `storage.medium`."""

    medium: Word | None = Field(default=None, pattern="^(Mock|ObjectStorage|PersistentVolume|FUSEVolume)$")
    """Mock, ObjectStorage, PersistentVolume or FUSEVolume."""


class ModelResourceSpec(ModelFields, ResourceSpec):
    """Files of a model, fetched once and kept with their digests."""

    storage: ModelStorageLocations = Field(default_factory=ModelStorageLocations)  # type: ignore[assignment]
    """Where the model comes from and where it is kept."""


class ReportResourceSpec(ReportFields, StoredSpec):
    """The verified outputs of an evaluation, scored by a rubric."""


class AuditResourceSpec(AuditFields, StoredSpec):
    """Several reports about one inference service, in one document."""


@dataclass(frozen=True)
class ResourceKind:
    """One kind of resource: its names, its spec, and the condition types that are always present."""

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
    each.kind: each
    for each in (
        ResourceKind("Audit", "audits", ("aud",), AuditResourceSpec, (*_BASE, "Complete")),
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
