"""Dataset: rows that never change once they are Ready."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel
from steelyard_schema.bounds import FEW, Word
from steelyard_schema.data import Artifact, DataSchema, DataView

ROWS = "data.parquet"
"""File of the rows of a dataset that the platform makes from a DataSource."""


class DatasetFields(SchemaModel):
    """Fields of a Dataset besides those of every entity."""

    name: Word
    """Name for people."""
    artifacts: list[Artifact] = Field(min_length=1, max_length=10_000)
    """Files of the dataset."""
    schema_: DataSchema = Field(alias="schema")
    """Schema of the rows."""
    views: Annotated[list[DataView], FEW] = Field(default_factory=list)
    """Other forms of the rows."""


class Dataset(DatasetFields, DyffEntity):
    """Rows that never change once they are Ready."""

    kind: Literal["Dataset"] = "Dataset"
    """Kind of the entity: Dataset."""
