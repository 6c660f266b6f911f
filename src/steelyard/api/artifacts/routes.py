"""Routes that only artifacts have."""

from collections.abc import Iterator

from starlette.responses import Response

from steelyard.api.entities.collection import Collection
from steelyard.api.entities.loading import load
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import NotImplementedYet
from steelyard.api.http.routing import Route


def artifact_routes(collection: Collection) -> Iterator[Route]:
    """Yield the routes of pushed artifacts."""
    yield Route(
        "POST", f"{collection.path}/{{id}}/finalize", Grant(collection.resource, "create"), finalize,
        "Finish the push", errors=(409, 501),
    )  # fmt: skip


async def finalize(context: RequestContext) -> Response:
    """An error: there is no registry yet, so nothing can have been pushed."""
    entity = await load(context)
    raise NotImplementedYet(f"the registry is not served yet: nothing can be pushed to artifact {entity.id}")
