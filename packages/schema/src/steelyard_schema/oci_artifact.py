"""OCIArtifact: an image or another artifact in the registry."""

from typing import Literal

from steelyard_schema.base import DyffEntity


class OCIArtifact(DyffEntity):
    """An image or another artifact in the registry, at `artifacts/<id>`."""

    kind: Literal["OCIArtifact"] = "OCIArtifact"
    """Kind of the entity: OCIArtifact."""
