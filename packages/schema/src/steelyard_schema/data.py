"""Parts that describe data: files, digests, schemas, views, adapters."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import FEW, MANY, Bytes, FreeForm, Text, Word

PATH_PATTERN = r"^[.]*[^/.\x00][^/\x00]*(/[.]*[^/.\x00][^/\x00]*)*$"
"""Pattern of paths without empty, `.` and `..` segments, which stay below their root; RE2 and ECMA 262 agree on it."""

RelativePath = Annotated[str, Field(pattern=PATH_PATTERN, max_length=4096)]


class Digest(SchemaModel):
    """Digests of a file's content."""

    md5: Word | None = None
    """Base64 of the 16 bytes of the MD5 digest, as in Content-MD5."""


class Artifact(SchemaModel):
    """A file of a dataset or a module."""

    kind: Word | None = None
    """Kind of the file, such as `parquet`."""
    path: RelativePath
    """Path below the entity's root, with `/` between segments."""
    digest: Digest = Field(default_factory=Digest)
    """Digests of the content."""


class File(SchemaModel):
    """A file of a volume."""

    mediaType: Word | None = None
    """Media type (RFC 6838)."""
    path: RelativePath
    """Path below the volume's root, with `/` between segments."""
    size: Bytes
    """Size in bytes."""
    digest: Digest = Field(default_factory=Digest)
    """Digests of the content."""


class Volume(SchemaModel):
    """A tree of files."""

    files: Annotated[list[File], MANY]
    """Files of the volume; an empty list stands for all files of the source."""


class DyffDataSchema(SchemaModel):
    """A schema made of named components."""

    components: list[Word] = Field(min_length=1, max_length=1000)
    """Names such as `text.Text`, whose fields are joined."""
    schemaVersion: Literal["0.1"] = "0.1"
    """Version of the component catalogue."""


class DataSchema(SchemaModel):
    """Schema of rows, in one to three forms."""

    arrowSchema: Text
    """Base64 of the serialised Arrow schema."""
    dyffSchema: DyffDataSchema | None = None
    """The same schema as named components."""
    jsonSchema: FreeForm | None = None
    """The same schema as JSON Schema."""


class SchemaAdapter(SchemaModel):
    """One step of a pipeline that rewrites JSON objects."""

    kind: Word
    """Kind of step: Drop, ExplodeCollections, FileUpload, FlattenHierarchy, Map, OpenAIAnswers, Pipeline, Rename,
    Select or TransformJSON."""
    configuration: FreeForm | None = None
    """Configuration of the step, whose form depends on the kind."""


class DataView(SchemaModel):
    """Another form of a dataset or of outputs, computed when it is read."""

    id: Word
    """Id of the view."""
    viewOf: Word
    """Id of the dataset or service whose rows the view shows."""
    schema_: DataSchema = Field(alias="schema")
    """Schema of the view's rows."""
    adapterPipeline: Annotated[list[SchemaAdapter], FEW] | None = None
    """Steps that rewrite a row; without them, rows stay as they are."""
