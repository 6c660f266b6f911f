"""Inference sessions from their create requests."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from steelyard.api.entities.creation import NewEntity, check_replicas
from steelyard.api.entities.references import foreign_service, resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard_schema.artifact_images import image_notes
from steelyard_schema.entities import AnyEntity
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.requests import InferenceSessionCreateRequest
from steelyard_schema.secrets import list_service_secrets, secret_annotations


async def inference_session(
    context: RequestContext, request: InferenceSessionCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    """Return the session, with its service embedded."""
    check_replicas(context, request.replicas, "replicas")
    lifetime = timedelta(seconds=context.api.platform.settings.session_seconds)
    expires = request.expires or context.now + lifetime
    check_future(expires, context.now)
    service = await resolve(context, InferenceService, request.inferenceService, "inferenceService")
    content = {
        **request.dump(),
        "expires": expires,
        "inferenceService": foreign_service(service).dump(),
        # The service's names, which are looked up in the account of the session.
        "annotations": [*secret_annotations(list_service_secrets(service)), *image_notes(service)],
    }
    return [new.entity(InferenceSession, content)]


def check_future(expires: datetime, now: datetime) -> None:
    """Raise Invalid for a time that is over."""
    if expires <= now:
        raise Invalid(f"expires: {expires.isoformat()} is past", field="expires")
