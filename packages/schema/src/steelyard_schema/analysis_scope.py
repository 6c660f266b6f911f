"""Scope of an analysis: the entities that its results are about. Measurements, safety cases and scores have one."""

from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import Id


class AnalysisScope(SchemaModel):
    """Entities that the results of an analysis are about."""

    dataset: Id | None = None
    """Id of the dataset."""
    inferenceService: Id | None = None
    """Id of the inference service."""
    evaluation: Id | None = None
    """Id of the evaluation."""
    model: Id | None = None
    """Id of the model."""
