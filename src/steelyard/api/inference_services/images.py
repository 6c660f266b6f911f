"""Images of artifacts: the digest that a service runs is looked up once, when the service is created."""

from steelyard.api.entities.references import resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.api.registry.errors import ManifestUnknown
from steelyard.api.registry.manifests import digest_of
from steelyard.api.registry.repository import Repository
from steelyard_schema.base import EntityIdentifier
from steelyard_schema.oci_artifact import OCIArtifact

TAG = "latest"
"""Tag of the image that runs: the one that the published client pushes."""


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
        return artifact.id, await digest_of(repository, TAG)
    except ManifestUnknown as error:
        tags = ", ".join((await repository.tags())[:5])
        raise Invalid(
            f"{field}: OCIArtifact {artifact.id} has no tag {TAG}; it has {tags}", field=field
        ) from error
