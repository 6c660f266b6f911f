"""Parts that describe data: files, digests, schemas, views, adapters."""

from typing import Annotated, Any, Literal

from pydantic import Field

from steelyard.schema.base import SchemaModel

PATH_PATTERN = r"^[.]*[^/.\x00][^/\x00]*(/[.]*[^/.\x00][^/\x00]*)*$"
"""No empty, `.` or `..` segment, so that a path stays below its root; RE2 and ECMA 262 agree on it."""

RelativePath = Annotated[str, Field(pattern=PATH_PATTERN)]


class Digest(SchemaModel):
    """Digests of a file's content."""

    md5: str | None = None
    """Base64 of the 16 bytes of the MD5, as in Content-MD5."""


class Artifact(SchemaModel):
    """A file of a dataset or a module."""

    kind: str | None = None
    """Kind of the file, such as `parquet`."""
    path: RelativePath
    """Path below the entity's root, with `/` between segments."""
    digest: Digest = Field(default_factory=Digest)
    """Digests of the content."""


class File(SchemaModel):
    """A file of a volume."""

    mediaType: str | None = None
    """Media type (RFC 6838)."""
    path: RelativePath
    """Path below the volume's root, with `/` between segments."""
    size: int = Field(ge=0)
    """Size in bytes."""
    digest: Digest = Field(default_factory=Digest)
    """Digests of the content."""


class Volume(SchemaModel):
    """A tree of files."""

    files: list[File]
    """The files; an empty list stands for all that lies at the source."""


class DyffDataSchema(SchemaModel):
    """A schema made of named components."""

    components: list[str] = Field(min_length=1)
    """Names such as `text.Text`; their fields are joined."""
    schemaVersion: Literal["0.1"] = "0.1"
    """Version of the component catalogue."""


class DataSchema(SchemaModel):
    """The schema of rows, in one to three forms."""

    arrowSchema: str
    """Base64 of the serialised Arrow schema."""
    dyffSchema: DyffDataSchema | None = None
    """The same as named components."""
    jsonSchema: dict[str, Any] | None = None
    """The same as JSON Schema."""


class SchemaAdapter(SchemaModel):
    """One step of a pipeline that rewrites JSON objects."""

    kind: str
    """Drop, ExplodeCollections, FileUpload, FlattenHierarchy, Map, Pipeline, Rename, Select or TransformJSON."""
    configuration: dict[str, Any] | None = None
    """What the kind needs."""


class DataView(SchemaModel):
    """Another form of a dataset or of outputs, computed when it is read."""

    id: str
    """Identifier."""
    viewOf: str
    """Identifier of what it is a view of."""
    schema_: DataSchema = Field(alias="schema")
    """Schema of the view's rows."""
    adapterPipeline: list[SchemaAdapter] | None = None
    """How a row is rewritten; absent: not at all."""
