"""Report: the verified outputs of an evaluation, scored by a rubric."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.bounds import FEW, Id, Rubric
from steelyard.schema.data import DataView


class ReportFields(SchemaModel):
    """What a Report is besides an entity."""

    rubric: Rubric
    """Name of the rubric, such as classification.Classification, with arguments after `?` where it takes any."""
    evaluation: Id
    """Id of the evaluation."""
    modules: Annotated[list[Id], FEW] = Field(default_factory=list)
    """Ids of modules that hold the rubric's code."""
    dataset: Id
    """Id of the dataset."""
    inferenceService: Id
    """Id of the inference service."""
    model: Id | None = None
    """Id of the model, where there is one."""
    datasetView: DataView | None = None
    """How the rubric sees the dataset; absent: as it is."""
    evaluationView: DataView | None = None
    """How the rubric sees the outputs; absent: as they are."""


class Report(ReportFields, DyffEntity):
    """The verified outputs of an evaluation, scored by a rubric."""

    kind: Literal["Report"] = "Report"
    """Always Report."""
