"""Report: the verified outputs of an evaluation, scored by a rubric."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel
from steelyard_schema.bounds import FEW, Id, Rubric
from steelyard_schema.data import DataView


class ReportFields(SchemaModel):
    """Fields of a Report besides those of every entity."""

    rubric: Rubric
    """Name of the rubric, such as classification.Classification; arguments follow after `?`."""
    evaluation: Id
    """Id of the evaluation."""
    modules: Annotated[list[Id], FEW] = Field(default_factory=list)
    """Ids of modules that hold the rubric's code."""
    dataset: Id
    """Id of the dataset."""
    inferenceService: Id
    """Id of the inference service."""
    model: Id | None = None
    """Id of the model, if there is one."""
    datasetView: DataView | None = None
    """View of the dataset that the rubric reads; without it, the dataset's rows as they are."""
    evaluationView: DataView | None = None
    """View of the outputs that the rubric reads; without it, the outputs as they are."""


class Report(ReportFields, DyffEntity):
    """The verified outputs of an evaluation, scored by a rubric."""

    kind: Literal["Report"] = "Report"
    """Kind of the entity: Report."""
