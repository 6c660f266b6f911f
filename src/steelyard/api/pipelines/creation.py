"""Pipelines from their create requests."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard.api.pipelines.graph import check_destinations, order
from steelyard_schema.entities import AnyEntity
from steelyard_schema.pipeline import Pipeline
from steelyard_schema.requests import PipelineCreateRequest


async def pipeline(
    context: RequestContext, request: PipelineCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    """Return the pipeline, whose graph has no cycle and no unknown names."""
    order(request)
    check_destinations(request)
    return [new.entity(Pipeline, request, "Ready")]
