"""Routes that only artifacts have."""

from collections.abc import Iterator

from steelyard.api.artifacts.finalizing import finalize
from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Route


def artifact_routes(collection: Collection) -> Iterator[Route]:
    """Yield the route that ends the pushes to an artifact."""
    yield Route(
        "POST", f"{collection.path}/{{id}}/finalize", Grant(collection.resource, "create"), finalize,
        "Finish the push", errors=(409, 422),
    )  # fmt: skip
