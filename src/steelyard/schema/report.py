"""Report: the verified outputs of an evaluation, scored by a rubric."""

from typing import Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.data import DataView


class ReportFields(SchemaModel):
    """What a Report is besides an entity."""

    rubric: str
    """Name of the rubric, such as classification.Classification, with arguments after `?` where it takes any."""
    evaluation: str
    """Id of the evaluation."""
    modules: list[str] = Field(default_factory=list)
    """Ids of modules that hold the rubric's code."""
    dataset: str
    """Id of the dataset."""
    inferenceService: str
    """Id of the inference service."""
    model: str | None = None
    """Id of the model, where there is one."""
    datasetView: DataView | None = None
    """How the rubric sees the dataset; absent: as it is."""
    evaluationView: DataView | None = None
    """How the rubric sees the outputs; absent: as they are."""


class Report(ReportFields, DyffEntity):
    """The verified outputs of an evaluation, scored by a rubric."""

    kind: Literal["Report"] = "Report"
    """Always Report."""
