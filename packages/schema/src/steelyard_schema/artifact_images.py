"""Images that were pushed as artifacts: where the nodes of a cluster pull them, by host, repository and digest.

An entity names the artifact (`runner.imageRef`). The API looks its digest up when the service is created, and keeps the
image in an annotation, since the published entities have no field for it; sessions and evaluations take it over. The
orchestrator writes it into the manifest in place of the reference.
"""

from steelyard_common.types import Json
from steelyard_schema.base import DyffEntity
from steelyard_schema.inference_service import ContainerImageSource

IMAGE = "steelyard/image"
"""Annotation with the image of a service's artifact: `<host>/artifacts/<id>@<digest>`."""


def image_note(host: str, artifact: str, digest: str) -> dict[str, str]:
    """Return the annotation for an artifact's image in the registry at `host`."""
    return {"key": IMAGE, "value": f"{host}/artifacts/{artifact}@{digest}"}


def image_notes(service: DyffEntity) -> list[dict[str, str]]:
    """Return the annotations that a session of this inference service takes over."""
    return [note.dump() for note in service.annotations if note.key == IMAGE]


def find_image(entity: DyffEntity) -> ContainerImageSource | None:
    """Return the image that an entity's artifact stands for; None without an artifact."""
    for note in entity.annotations:
        if note.key == IMAGE:
            place, _, digest = note.value.partition("@")
            host, _, name = place.partition("/")
            return ContainerImageSource(host=host, name=name, digest=digest)
    return None


def with_image(content: Json, image: ContainerImageSource) -> Json:
    """Return an entity's content with the image in place of every runner's reference to its artifact."""
    changed: Json = {}
    for name, value in content.items():
        if name == "runner" and isinstance(value, dict) and "imageRef" in value:
            rest = {field: item for field, item in value.items() if field != "imageRef"}
            changed[name] = {**rest, "image": image.dump()}
        elif name in ("inferenceSession", "inferenceService") and isinstance(value, dict):
            changed[name] = with_image(value, image)
        else:
            changed[name] = value
    return changed
