"""What every model of the schema shares: strict fields, JSON names, UTC times, and the base of all entities."""

from datetime import UTC, datetime
from math import isfinite
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_serializer

_LABEL = "[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
LABEL_KEY_PATTERN = rf"^({_LABEL}(\.{_LABEL})*/)?{_LABEL}$"

SCHEMA_VERSION: Literal["0.1"] = "0.1"

EntityKind = Literal[
    "Account", "Analysis", "Audit", "AuditProcedure", "Challenge", "Curve", "DataSource", "Dataset", "Evaluation",
    "Family", "Hazard", "History", "InferenceService", "InferenceSession", "Measurement", "Method", "Model", "Module",
    "OCIArtifact", "Pipeline", "PipelineRun", "Quota", "Report", "Revision", "SafetyCase", "Submission", "Team",
    "UseCase",
]  # fmt: skip


def _to_utc(value: datetime) -> datetime:
    """The published schema normalises every time to UTC and takes a time without a zone for UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Time = Annotated[datetime, AfterValidator(_to_utc)]


class SchemaModel(BaseModel):
    """Strict about fields; written without what is absent; field names are the JSON names."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, use_attribute_docstrings=True)

    def dump(self) -> dict[str, Any]:
        """The JSON form as Python values: aliases, nulls left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def dump_json(self) -> str:
        return self.model_dump_json(by_alias=True, exclude_none=True)

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Raises pydantic.ValidationError, whose errors name the field."""
        return cls.model_validate(value)


class EntityIdentifier(SchemaModel):
    """Names one entity."""

    id: str
    """The entity's id."""
    kind: EntityKind
    """The entity's kind."""


class Annotation(SchemaModel):
    """A key and a value that the platform keeps and does not read."""

    key: str = Field(max_length=317, pattern=LABEL_KEY_PATTERN)
    """Key, in the syntax of label keys."""
    value: str
    """Value."""


class MetricValue(SchemaModel):
    """One measurement of a metric."""

    labels: dict[str, str]
    """What was measured."""
    timestamp: Time
    """When."""
    value: float
    """The number."""


class Metrics(SchemaModel):
    """Metrics captured when a workflow completed."""

    data: dict[str, list[MetricValue]] = Field(default_factory=dict)
    """Measurements by the metric's name."""

    @field_serializer("data")
    def _finite(self, data: dict[str, list[MetricValue]]) -> dict[str, list[MetricValue]]:
        """JSON has no infinity and no NaN: what is not finite is left out, as the published schema does."""
        return {name: [each for each in values if isfinite(each.value)] for name, values in data.items()}


class DocumentationBase(SchemaModel):
    """What a person reads about an entity."""

    title: str | None = None
    """At most 140 characters."""
    summary: str | None = None
    """Markdown, at most 280 characters."""
    fullPage: str | None = None
    """Markdown."""


class DyffEntityMetadata(SchemaModel):
    """What may change about an entity besides its status and labels."""

    metrics: Metrics | None = None
    """Metrics captured at completion."""
    revision: str | None = None
    """Id of the current revision."""
    documentation: DocumentationBase = Field(default_factory=DocumentationBase)
    """What a person reads about the entity."""
    preconditions: list[EntityIdentifier] = Field(default_factory=list)
    """Entities that must have succeeded first."""


class DyffEntity(SchemaModel):
    """The base of all entities: identity, status, labels, times."""

    id: str
    """Identifier: 32 lower-case hexadecimal digits."""
    account: str
    """The account that owns the entity."""
    schemaVersion: Literal["0.1"] = SCHEMA_VERSION
    """Version of the schema."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Key and value pairs in the syntax of Kubernetes labels."""
    creationTime: Time
    """When the entity was created."""
    lastTransitionTime: Time | None = None
    """When the status last changed."""
    status: str
    """The last milestone that was reached."""
    reason: str | None = None
    """Why the status is what it is, in one word."""
    message: str | None = None
    """The same in a sentence."""
    metadata: DyffEntityMetadata = Field(default_factory=DyffEntityMetadata)
    """Documentation, metrics, preconditions."""
    annotations: list[Annotation] = Field(default_factory=list)
    """Kept and not read."""


class Foreign(SchemaModel):
    """What an entity embeds of another one: its identity without its status."""

    id: str
    """Identifier of the entity."""
    account: str
    """The account that owns it."""
