"""What every model of the schema shares: strict fields, JSON names, UTC times, and the base of all entities."""

from datetime import UTC, datetime
from math import isfinite
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, field_serializer
from pydantic_core import CoreSchema

from steelyard.schema.bounds import FEW, MANY, Float, Id, LabelKey, Text, Word

_LABEL = "[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
LABEL_KEY_PATTERN = rf"^({_LABEL}(\.{_LABEL})*/)?{_LABEL}$"

SCHEMA_VERSION: Literal["0.1"] = "0.1"

EntityKind = Literal[
    "Account", "Analysis", "Audit", "AuditProcedure", "Challenge", "Curve", "DataSource", "Dataset", "Evaluation",
    "Family", "Hazard", "History", "InferenceService", "InferenceSession", "Measurement", "Method", "Model", "Module",
    "OCIArtifact", "Pipeline", "PipelineRun", "Quota", "Report", "Revision", "SafetyCase", "Submission", "Team",
    "UseCase",
]  # fmt: skip


LAST_TIME = datetime(9000, 1, 1, tzinfo=UTC)
"""Times end before Python's own do, so that a duration can be added to each."""


def to_utc(value: datetime) -> datetime:
    """The published schema normalises every time to UTC and takes a time without a zone for UTC."""
    try:
        utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        utc = None
    if utc is None or utc >= LAST_TIME:
        raise ValueError(f"{value.isoformat()} should be a time before the year {LAST_TIME.year}")
    return utc


Time = Annotated[datetime, AfterValidator(to_utc)]


class SchemaModel(BaseModel):
    """Strict about fields; written without what is absent; field names are the JSON names."""

    # Built when first used: most programs that import the schema use few of its models.
    model_config = ConfigDict(extra="forbid", populate_by_name=True, defer_build=True)

    def dump(self) -> dict[str, Any]:
        """The JSON form as Python values: aliases, nulls left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def dump_json(self) -> str:
        return self.model_dump_json(by_alias=True, exclude_none=True)

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Raises pydantic.ValidationError, whose errors name the field."""
        return cls.model_validate(value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The docstrings below the fields are their descriptions."""
        from steelyard.schema.docstrings import describe

        written = handler(schema)
        describe(cls, handler.resolve_ref_schema(written), handler)
        return written


class EntityIdentifier(SchemaModel):
    """Names one entity."""

    id: Id
    """The entity's id."""
    kind: EntityKind
    """The entity's kind."""


class Annotation(SchemaModel):
    """A key and a value that the platform keeps and does not read."""

    key: str = Field(max_length=317, pattern=LABEL_KEY_PATTERN)
    """Key, in the syntax of label keys."""
    value: Text
    """Value."""


class MetricValue(SchemaModel):
    """One measurement of a metric."""

    labels: Annotated[dict[LabelKey, Text], FEW]
    """What was measured."""
    timestamp: Time
    """When."""
    value: Float
    """The number."""


class Metrics(SchemaModel):
    """Metrics captured when a workflow completed."""

    data: Annotated[dict[Word, Annotated[list[MetricValue], MANY]], FEW] = Field(default_factory=dict)
    """Measurements by the metric's name."""

    @field_serializer("data")
    def _finite(self, data: dict[str, list[MetricValue]]) -> dict[str, list[MetricValue]]:
        """JSON has no infinity and no NaN: what is not finite is left out, as the published schema does."""
        return {name: [each for each in values if isfinite(each.value)] for name, values in data.items()}


class DocumentationBase(SchemaModel):
    """What a person reads about an entity."""

    title: Text | None = None
    """At most 140 characters."""
    summary: Text | None = None
    """Markdown, at most 280 characters."""
    fullPage: Text | None = None
    """Markdown."""


class DyffEntityMetadata(SchemaModel):
    """What may change about an entity besides its status and labels."""

    metrics: Metrics | None = None
    """Metrics captured at completion."""
    revision: Word | None = None
    """Id of the current revision."""
    documentation: DocumentationBase = Field(default_factory=DocumentationBase)
    """What a person reads about the entity."""
    preconditions: Annotated[list[EntityIdentifier], MANY] = Field(default_factory=list)
    """Entities that must have succeeded first."""


class DyffEntity(SchemaModel):
    """The base of all entities: identity, status, labels, times."""

    id: Id
    """Identifier: 32 lower-case hexadecimal digits."""
    account: Word
    """The account that owns the entity."""
    schemaVersion: Literal["0.1"] = SCHEMA_VERSION
    """Version of the schema."""
    labels: Annotated[dict[LabelKey, Word], FEW] = Field(default_factory=dict)
    """Key and value pairs in the syntax of Kubernetes labels."""
    creationTime: Time
    """When the entity was created."""
    lastTransitionTime: Time | None = None
    """When the status last changed."""
    status: Word
    """The last milestone that was reached."""
    reason: Text | None = None
    """Why the status is what it is, in one word."""
    message: Text | None = None
    """The same in a sentence."""
    metadata: DyffEntityMetadata = Field(default_factory=DyffEntityMetadata)
    """Documentation, metrics, preconditions."""
    annotations: Annotated[list[Annotation], FEW] = Field(default_factory=list)
    """Kept and not read."""


class Foreign(SchemaModel):
    """What an entity embeds of another one: its identity without its status."""

    id: Id
    """Identifier of the entity."""
    account: Word
    """The account that owns it."""
