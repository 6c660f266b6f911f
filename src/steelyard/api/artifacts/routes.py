"""Routes that only artifacts have."""

from collections.abc import Iterator

from starlette.responses import Response

from steelyard.api.datasets.creation import WAITING_FOR_UPLOAD
from steelyard.api.entities.collection import Collection
from steelyard.api.entities.loading import load, status_reason
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Invalid
from steelyard.api.http.responses import value_response
from steelyard.api.http.routing import Route
from steelyard.api.registry.manifests import missing, read_seal
from steelyard.api.registry.repository import Repository
from steelyard_schema.commands import StatusData, StatusPatch, UpdateEntityStatus

_TRIES = 10
"""Number of times that the content is checked while pushes and deletions change it."""


def artifact_routes(collection: Collection) -> Iterator[Route]:
    """Yield the route that ends the pushes to an artifact."""
    yield Route(
        "POST", f"{collection.path}/{{id}}/finalize", Grant(collection.resource, "create"), finalize,
        "Finish the push", errors=(409, 422),
    )  # fmt: skip


async def finalize(context: RequestContext) -> Response:
    """Null; the artifact is ready. A repeat answers the same."""
    entity = await load(context)
    if entity.status == WAITING_FOR_UPLOAD:
        await _seal(Repository(entity.id, context.api.platform.store))
        patch = StatusPatch(status="Ready", reason=None, message=None)
        data = StatusData(id=entity.id, kind=entity.kind, attributes=patch)
        try:
            await context.api.commands.edit(
                UpdateEntityStatus(data=data), context.command_origin(), context.now
            )
        except Conflict:
            # Another request may have finalized it at the same time: that is no error.
            if (await load(context)).status != "Ready":
                raise
    elif entity.status != "Ready":
        raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status}{status_reason(entity)}")
    # By a repeat as well: the first may have been cut short.
    await Repository(entity.id, context.api.platform.store, is_open=False).remove_deleted()
    return value_response(None)


async def _seal(repository: Repository) -> None:
    """Seal the content that was pushed. Raises Invalid, and leaves the artifact open, if it is not whole.

    Content is checked before it is sealed, and a seal is never removed: a request that removes it could be suspended
    right before, until another one has sealed the artifact again and made it ready.
    """
    for _ in range(_TRIES):
        # Another request that finalizes, or one that was cut short, may have decided. A deletion that was refused since
        # then has changed the content all the same, and a check of that would refuse the artifact for ever.
        if await repository.sealing.completed():
            return
        content = await read_seal(repository)
        lacking = await missing(repository, content)
        if lacking is None:
            if await repository.sealing.seal(content, lambda: read_seal(repository)):
                return
        elif await read_seal(repository) == content and not await repository.sealing.completed():
            raise Invalid(f"artifact: {lacking}", field="artifact")
        # Something was pushed, deleted or decided during the check, which says nothing about the content now.
    raise Conflict(f"artifact: pushes to {repository.id} go on; finalize it when they have ended")
