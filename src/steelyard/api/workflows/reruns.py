"""Reruns of workflows: a new entity of the same request as one that has ended, which stays as it is.

Runs of pipelines and submissions have reruns of their own, which may keep workflows that have succeeded.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from steelyard.api.entities.collection import Collection
from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Invalid, NotFound
from steelyard_schema.base import Annotation
from steelyard_schema.entities import AnyEntity
from steelyard_schema.requests import WorkflowRerunRequest
from steelyard_schema.reruns import RERUN_OF, is_uploaded, make_request
from steelyard_schema.status import TERMINAL


async def rerun(collection: Collection, context: RequestContext) -> Response:
    """A new entity, made and checked as by its create request. Only an entity that has ended, and is not deleted, runs
    again."""
    request = await context.body(WorkflowRerunRequest)
    context.reply.watch(context.request.receive)
    before = await load(context)
    # The new entity shows what the earlier one holds.
    if not context.access.allows(collection.resource, "get", before.account, before.id):
        raise NotFound(f"id: there is no {collection.kind} {before.id}")
    if request.account not in {None, before.account}:
        raise Invalid(
            f"account: is {request.account}; {collection.kind} {before.id} belongs to {before.account}",
            field="account",
        )
    if is_uploaded(before):
        raise Conflict(
            f"{collection.kind} {before.id} was uploaded: create another one, and upload its files to it"
        )

    async def build(context: RequestContext, request: Any, new: NewEntity) -> Sequence[AnyEntity]:
        # Here, since a repeat of this request gets its entity also after the earlier one was deleted.
        _check_ended(before)
        entity, *others = await collection.build(context, request, new)
        note = Annotation(key=RERUN_OF, value=before.id)
        return [entity.model_copy(update={"annotations": [*entity.annotations, note]}), *others]

    content: dict[str, object] = {**make_request(before, context.now), "account": before.account}
    return await replace(collection, build=build).create_entity(context, content)


def _check_ended(entity: AnyEntity) -> None:
    """Raise Conflict for an entity whose workflow may still come to its end, and for a deleted one."""
    name = f"{entity.dump()['kind']} {entity.id}"
    if entity.status == "Deleted":
        raise Conflict(f"status: {name} is deleted: create another one")
    if entity.status not in TERMINAL:
        raise Conflict(f"status: {name} is {entity.status}: terminate it before it runs again")
