"""DataSource: a place outside the platform that data comes from."""

from typing import Literal

from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.bounds import Line, Word


class DataSourceFields(SchemaModel):
    """Fields of a DataSource besides those of every entity."""

    name: Word
    """Name for people."""
    sourceKind: Word
    """Kind of place: huggingface, upload or zenodo."""
    source: Line | None = None
    """Address of the data."""


class DataSource(DataSourceFields, DyffEntity):
    """A place outside the platform that data comes from."""

    kind: Literal["DataSource"] = "DataSource"
    """Kind of the entity: DataSource."""
