"""Inference services from their create requests, with their models embedded."""

from collections.abc import Sequence
from typing import Any

from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.references import foreign_model, resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.api.registry.errors import ManifestUnknown
from steelyard.api.registry.manifests import resolve_digest
from steelyard.api.registry.repository import Repository
from steelyard.egress.policy import check_url
from steelyard_schema.artifact_images import image_note
from steelyard_schema.base import EntityIdentifier
from steelyard_schema.dataset import Dataset
from steelyard_schema.egress import EgressRefused
from steelyard_schema.entities import AnyEntity
from steelyard_schema.hosted_model import HostedModelFault, is_hosted, read_hosted_model
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.model import Model
from steelyard_schema.module import Module
from steelyard_schema.oci_artifact import OCIArtifact
from steelyard_schema.requests import InferenceServiceCreateRequest

_MOUNTABLE: dict[str, type[Dataset | Model | Module]] = {"Dataset": Dataset, "Model": Model, "Module": Module}
TAG = "latest"
"""Tag of the image that runs: the one that the published client pushes."""


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
        model = read_hosted_model(runner)
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


async def image_of_artifact(context: RequestContext, image: EntityIdentifier, field: str) -> tuple[str, str]:
    """Return the id of an artifact, and the digest of the image that it holds. Raises Invalid, Forbidden."""
    if not context.api.platform.settings.image_registry:
        raise Invalid(
            f"{field}: no node pulls images from this platform: the setting api.image_registry, the address for the "
            "nodes of a cluster, is not set; name an image by runner.image",
            field=field,
        )
    if image.kind != "OCIArtifact":
        raise Invalid(
            f"{field}.kind: is {image.kind}; only an OCIArtifact holds an image", field=f"{field}.kind"
        )
    artifact = await resolve(context, OCIArtifact, image.id, field)
    if artifact.status != "Ready":
        raise Invalid(
            f"{field}: OCIArtifact {artifact.id} is {artifact.status}; finalize it first", field=field
        )
    repository = Repository(artifact.id, context.api.platform.store, is_open=False)
    try:
        return artifact.id, await resolve_digest(repository, TAG)
    except ManifestUnknown as error:
        tags = ", ".join((await repository.tags())[:5])
        raise Invalid(
            f"{field}: OCIArtifact {artifact.id} has no tag {TAG}; it has {tags}", field=field
        ) from error
