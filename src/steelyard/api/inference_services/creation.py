"""Inference services from their create requests, with their models embedded."""

from collections.abc import Sequence
from typing import Any

from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.references import foreign_model, resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.api.inference_services.images import image_of_artifact
from steelyard.egress.policy import EgressRefused, check_url
from steelyard_schema.artifact_images import image_note
from steelyard_schema.dataset import Dataset
from steelyard_schema.entities import AnyEntity
from steelyard_schema.hosted_model import HostedModelFault, hosted_model, is_hosted
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.model import Model
from steelyard_schema.module import Module
from steelyard_schema.requests import InferenceServiceCreateRequest

_MOUNTABLE: dict[str, type[Dataset | Model | Module]] = {"Dataset": Dataset, "Model": Model, "Module": Module}


async def inference_service(
    context: RequestContext, request: InferenceServiceCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    content = request.dump()
    if request.model is not None:
        content["model"] = foreign_model(await resolve(context, Model, request.model, "model")).dump()
    await _resolve_runner(context, request, content)
    return [new.entity(InferenceService, content)]


def _check_hosted(context: RequestContext, request: InferenceServiceCreateRequest) -> None:
    """Raise Invalid for a hosted model that is wrong, or whose provider may not be called from here."""
    runner = request.runner.dump() if request.runner else {}
    if not is_hosted(runner):
        return
    try:
        model = hosted_model(runner)
    except HostedModelFault as error:
        raise Invalid(f"runner.{error}", field=f"runner.{error.field}") from error
    if request.builder is not None:
        raise Invalid("builder: a hosted model has none", field="builder")
    try:
        check_url(context.api.platform.egress.policy("services"), model.base_url, "runner.args: --base-url")
    except EgressRefused as error:
        raise Invalid(str(error), field="runner.args") from error


async def _resolve_runner(
    context: RequestContext, request: InferenceServiceCreateRequest, content: dict[str, Any]
) -> None:
    """Write into `content` the ids of what the runner mounts, and its artifact's image. Raises Invalid."""
    if request.runner is None:
        return
    _check_hosted(context, request)
    if (image := request.runner.imageRef) is not None:
        artifact, digest = await image_of_artifact(context, image, "runner.imageRef")
        content["runner"]["imageRef"]["id"] = artifact
        content["annotations"] = [image_note(context.api.platform.settings.image_registry, artifact, digest)]
    for number, mount in enumerate(request.runner.volumeMounts or []):
        if mount.data is None:
            continue
        field, source = f"runner.volumeMounts.{number}.data.source", mount.data.source
        if source.kind not in _MOUNTABLE:
            raise Invalid(
                f"{field}.kind: {source.kind} is not one of {', '.join(_MOUNTABLE)}", field=f"{field}.kind"
            )
        mounted = await resolve(context, _MOUNTABLE[source.kind], source.id, field)
        content["runner"]["volumeMounts"][number]["data"]["source"]["id"] = mounted.id
