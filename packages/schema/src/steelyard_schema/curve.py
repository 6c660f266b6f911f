"""Curve: values of several dimensions that belong together, such as precision and recall by threshold."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import FEW, Float, Id, Summary, Title, Word
from steelyard_schema.score import Identifier, ScoreMetadata, ScoreSpec


class CurveSpec(SchemaModel):
    """Description of a curve that a method computes."""

    name: Identifier
    """Name of the curve, which no other curve of the method has."""
    title: Title
    """Title, at most 140 characters."""
    summary: Summary
    """Description of the curve, in at most 280 characters."""
    dimensions: Annotated[dict[Word, ScoreSpec], FEW]
    """Descriptions of the dimensions, by their names in `points`."""


class CurveData(CurveSpec):
    """A curve as an analysis writes it."""

    metadata: ScoreMetadata
    """Metadata, by which curves are found."""
    analysis: Id
    """Id of the analysis that computed the curve."""
    points: Annotated[
        dict[Word, Annotated[list[Float], Field(min_length=1, max_length=10_000)]],
        Field(min_length=1, max_length=1000),
    ]
    """Values by dimension, as many of each."""

    @model_validator(mode="after")
    def _check_alignment(self) -> Self:
        lengths = {name: len(values) for name, values in self.points.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"points: all dimensions should have as many values; they have {lengths}")
        if missing := [name for name in self.dimensions if name not in self.points]:
            raise ValueError(f"points: values of {', '.join(missing)} are missing")
        return self


class Curve(CurveData):
    """Values of several dimensions that belong together."""

    kind: Literal["Curve"] = "Curve"
    """Kind of the entity: Curve."""
    id: Id
    """Identifier: it follows from the analysis and the name."""
