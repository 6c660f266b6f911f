"""Base classes of the schema's models: strict fields, JSON names, UTC times, and the fields of every entity."""

from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, field_serializer
from pydantic_core import CoreSchema

from steelyard_schema.bounds import FEW, MANY, NUMBER, Float, Id, LabelKey, Text, Word

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
"""Latest time that is accepted: a duration can be added to it before Python's own calendar ends."""


def to_utc(value: datetime) -> datetime:
    """Return the time in UTC. As in the published schema, a time without a zone is one in UTC."""
    try:
        # A zone may move a time of the year 1 or 9999 out of Python's calendar: OverflowError, which pydantic
        # does not expect.
        utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        utc = None
    if utc is None or utc >= LAST_TIME:
        raise ValueError(f"{value.isoformat()} should be a time before the year {LAST_TIME.year}")
    return utc


Time = Annotated[datetime, AfterValidator(to_utc)]
Duration = Annotated[timedelta, Field(ge=timedelta(0), le=timedelta(days=36_500)), NUMBER]
"""A time span of at most a hundred years: a time that is accepted can be added to it."""


class SchemaModel(BaseModel):
    """A model that refuses unknown fields, and whose JSON leaves absent ones out. Field names are the JSON names."""

    # Built when first used: most programs that import the schema use few of its models.
    model_config = ConfigDict(extra="forbid", populate_by_name=True, defer_build=True)

    def dump(self) -> dict[str, Any]:
        """Return the JSON form as Python values, without nulls."""
        # As the published platform writes entities: a null and an absent field are the same there.
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def dump_json(self) -> str:
        return self.model_dump_json(by_alias=True, exclude_none=True)

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Return the model of a JSON value. Raises pydantic.ValidationError, whose errors name the field."""
        return cls.model_validate(value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The docstrings below the fields are their descriptions."""
        from steelyard_schema.docstrings import describe

        written = handler(schema)
        describe(cls, handler.resolve_ref_schema(written), handler)
        return written


class EntityIdentifier(SchemaModel):
    """The id and kind of one entity."""

    id: Id
    """Id of the entity."""
    kind: EntityKind
    """Kind of the entity."""


class Annotation(SchemaModel):
    """A key and a value that the platform stores and does not interpret."""

    key: str = Field(max_length=317, pattern=LABEL_KEY_PATTERN)
    """Key, in the syntax of label keys."""
    value: Text
    """Value."""


class MetricValue(SchemaModel):
    """One measurement of a metric."""

    labels: Annotated[dict[LabelKey, Text], FEW]
    """Labels that name the measured quantity."""
    timestamp: Time
    """Time of the measurement."""
    value: Float
    """Measured number."""


class Metrics(SchemaModel):
    """Metrics that were captured when a workflow completed."""

    data: Annotated[dict[Word, Annotated[list[MetricValue], MANY]], FEW] = Field(default_factory=dict)
    """Measurements by the name of the metric."""

    @field_serializer("data")
    def _finite(self, data: dict[str, list[MetricValue]]) -> dict[str, list[MetricValue]]:
        """Leave numbers out that are not finite, as the published schema does: JSON has no infinity and no NaN."""
        return {name: [value for value in values if isfinite(value.value)] for name, values in data.items()}


class DocumentationBase(SchemaModel):
    """Documentation of an entity, for people."""

    title: Text | None = None
    """Title, at most 140 characters."""
    summary: Text | None = None
    """Summary in Markdown, at most 280 characters."""
    fullPage: Text | None = None
    """Full page in Markdown."""


class DyffEntityMetadata(SchemaModel):
    """Metadata of an entity that may change, besides its status and labels."""

    metrics: Metrics | None = None
    """Metrics that were captured at completion."""
    revision: Word | None = None
    """Id of the current revision."""
    documentation: DocumentationBase = Field(default_factory=DocumentationBase)
    """Documentation of the entity, for people."""
    preconditions: Annotated[list[EntityIdentifier], MANY] = Field(default_factory=list)
    """Entities that must have succeeded before the workflow begins."""


class StoredEntity(SchemaModel):
    """Fields of everything that the platform stores by id: identity, status, times."""

    id: Id
    """Identifier: 32 lower-case hexadecimal digits."""
    account: Word
    """Account that owns the entity."""
    schemaVersion: Literal["0.1"] = SCHEMA_VERSION
    """Version of the schema."""
    creationTime: Time
    """Time at which the entity was created."""
    lastTransitionTime: Time | None = None
    """Time at which the status last changed."""
    status: Word
    """Last milestone that the entity reached."""
    reason: Text | None = None
    """Reason of the status in one word."""
    message: Text | None = None
    """Reason of the status in a sentence."""


class DyffEntity(StoredEntity):
    """Fields of every entity: identity, status, labels, times."""

    labels: Annotated[dict[LabelKey, Word], FEW] = Field(default_factory=dict)
    """Labels: key and value pairs in the syntax of Kubernetes labels."""
    metadata: DyffEntityMetadata = Field(default_factory=DyffEntityMetadata)
    """Documentation, metrics, preconditions."""
    annotations: Annotated[list[Annotation], FEW] = Field(default_factory=list)
    """Annotations, which the platform stores and does not interpret."""


class Foreign(SchemaModel):
    """Identity of an entity that is embedded in another one, without its status."""

    id: Id
    """Identifier of the entity."""
    account: Word
    """Account that owns the entity."""
