"""PipelineRun: one run of a pipeline, and the workflows that it has created."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, EntityIdentifier, SchemaModel
from steelyard_schema.bounds import FEW, FreeForm, Id, Word


class PipelineRunFields(SchemaModel):
    """Fields of a PipelineRun that its create request has."""

    pipeline: Id
    """Id of the pipeline."""
    arguments: FreeForm = Field(default_factory=dict)
    """Arguments by the keywords of the pipeline's parameters."""


class PipelineRun(PipelineRunFields, DyffEntity):
    """One run of a pipeline, and the workflows that it has created."""

    workflows: Annotated[dict[Word, EntityIdentifier], FEW]
    """Workflows by the names of the pipeline's nodes."""
    kind: Literal["PipelineRun"] = "PipelineRun"
    """Kind of the entity: PipelineRun."""
