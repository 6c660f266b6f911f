"""Base of the views of Kubernetes objects: the whole object, and readers of it. Fields that are not known here stay."""

from dataclasses import dataclass

from steelyard.clusters.reading import text
from steelyard_common.types import Json


@dataclass(frozen=True)
class ObjectView:
    """An object of a namespace; `resource` is the whole object."""

    resource: Json

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, namespace={self.namespace!r})"

    @property
    def name(self) -> str:
        return text(self.resource, "metadata", "name")

    @property
    def namespace(self) -> str:
        return text(self.resource, "metadata", "namespace")

    @property
    def uid(self) -> str:
        return text(self.resource, "metadata", "uid")
