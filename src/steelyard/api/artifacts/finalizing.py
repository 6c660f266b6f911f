"""The end of the pushes to an artifact: what the registry has of it is whole, and stays as it is."""

from starlette.responses import Response

from steelyard.api.datasets.creation import WAITING_FOR_UPLOAD
from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Invalid
from steelyard.api.http.responses import value_response
from steelyard.api.registry.manifests import missing, seal
from steelyard.api.registry.repository import Repository
from steelyard.schema.commands import StatusData, StatusPatch, UpdateEntityStatus


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
        raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status}")
    # By a repeat as well: the first may have been cut short.
    await Repository(entity.id, context.api.platform.store, is_open=False).remove_deleted()
    return value_response(None)


async def _seal(repository: Repository) -> None:
    """Seal what was pushed. Raises Invalid, and leaves the artifact open, if it is not whole."""
    _check(await missing(repository))
    sealed = await seal(repository)
    try:
        # Once more: something may have been deleted between the check and the seal.
        _check(await missing(sealed))
    except Invalid:
        await repository.store.delete(repository.seal)
        raise


def _check(lacking: str | None) -> None:
    if lacking is not None:
        raise Invalid(f"artifact: {lacking}", field="artifact")
