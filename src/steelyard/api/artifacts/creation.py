"""Artifacts from their create requests. What they hold is pushed to the registry later."""

from collections.abc import Sequence

from steelyard.api.datasets.creation import WAITING_FOR_UPLOAD
from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard_schema.entities import AnyEntity
from steelyard_schema.oci_artifact import OCIArtifact
from steelyard_schema.requests import ArtifactCreateRequest


async def artifact(
    context: RequestContext, request: ArtifactCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    return [new.entity(OCIArtifact, request, WAITING_FOR_UPLOAD)]
