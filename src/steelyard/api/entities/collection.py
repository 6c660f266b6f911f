"""Handlers that every kind of entity has: create, get, query, edit, delete."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.responses import Response

from steelyard.accounts.outbox import OutboxRow
from steelyard.api.commands.commands import CommandOrigin, Edit, derive_id
from steelyard.api.entities.creation import Build, NewEntity
from steelyard.api.entities.dependents import warning
from steelyard.api.entities.labels import check_reserved
from steelyard.api.entities.loading import EntitySummary, load_json, load_summary
from steelyard.api.entities.reading import make_entity
from steelyard.api.entities.secrets import take_secrets
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, Invalid, NotFound, invalid
from steelyard.api.http.responses import json_response, model_response, value_response
from steelyard.views.parse import parse_query
from steelyard.views.view import BadQuery
from steelyard_schema.account import APIResource
from steelyard_schema.answers import Status
from steelyard_schema.commands import (
    DocumentationAttributes,
    DocumentationData,
    EditEntityDocumentation,
    EditEntityLabels,
    LabelsData,
    LabelsPatch,
    StatusData,
    StatusPatch,
    UpdateEntityStatus,
)
from steelyard_schema.dependencies import tag_notes
from steelyard_schema.entities import PLURALS
from steelyard_schema.requests import CreateRequest, DocumentationEditRequest, LabelsEditRequest
from steelyard_schema.security import SecurityContext
from steelyard_schema.status import TERMINAL, WITH_WORKFLOW

Shown = Callable[[RequestContext, Sequence[bytes]], Awaitable[Sequence[bytes]]]
"""Returns the JSON of entities without the parts that the caller may not see."""
Completed = Callable[[RequestContext, bytes], Awaitable[bytes]]
"""Returns the answer about a new entity, given the entity's JSON."""
Turn = Callable[[RequestContext, Any], Awaitable[str]]
"""Names what a new entity is counted against; requests with the same name are accepted one after the other."""
MORE = "steelyard-more"
"""Header of an answer that does not hold all entities that match."""

Ending = Callable[[RequestContext, EntitySummary, str], Awaitable[str | None]]
"""Ends what an entity has created before it gets a status by which a client ends it; returns the notice for the client.

Raises ApiError if it must not end.
"""


@dataclass(frozen=True, kw_only=True)
class ReadCollection:
    """The handlers of one kind for entities that exist."""

    kind: str
    place: str = ""
    """Path of the kind's routes below `/v0/`, where it is not the name of the resource."""
    ending: Ending | None = None
    """Ends what an entity of the kind has created, when a client ends the entity."""
    shown: Shown | None = None
    """Leaves out of an entity what its callers may not see."""

    @property
    def path(self) -> str:
        """Path of the kind's routes."""
        return f"/v0/{self.place or self.resource}"

    @property
    def resource(self) -> APIResource:
        return PLURALS[self.kind]  # type: ignore[return-value]

    async def get(self, context: RequestContext) -> Response:
        json = await load_json(context)
        return json_response(json if self.shown is None else (await self.shown(context, [json]))[0])

    async def query(self, context: RequestContext) -> Response:
        """A JSON array. With more entities than one answer holds, the header `steelyard-more` says so."""
        scope = context.access.scope(self.resource, "query")
        maximum = context.api.platform.settings.query_limit
        try:
            query = parse_query(self.kind, context.query, scope)
            limit = min(query.limit or maximum, maximum)
            # One more than the limit, to know without a second query whether there are more.
            entities = await context.api.entities.query(replace(query, limit=limit + 1))
        except BadQuery as error:
            raise Invalid(str(error), field=error.field) from error
        page = entities[:limit]
        shown = page if self.shown is None else await self.shown(context, page)
        response = json_response(b"[%s]" % b",".join(shown))
        if len(entities) > limit:
            response.headers[MORE] = "true"
        return response

    async def delete(self, context: RequestContext) -> Response:
        """The status; `message` says whether a running workflow is stopped, and names what uses the deleted entity."""
        return await self._change_status(context, "Deleted", "DeleteCommand")

    async def terminate(self, context: RequestContext) -> Response:
        return await self._change_status(context, "Terminated", "TerminateCommand")

    async def label(self, context: RequestContext) -> Response:
        """All labels after the edit."""
        request = await context.edit(LabelsEditRequest)
        entity = await load_summary(context)
        check_reserved(request)
        patch = LabelsPatch(labels=request.labels)
        data = LabelsData(id=entity.id, kind=entity.kind, attributes=patch)
        json = await self._edit(context, EditEntityLabels(data=data))
        return value_response({"labels": orjson.loads(json).get("labels", {})})

    async def documentation(self, context: RequestContext) -> Response:
        return value_response(_documentation(await load_json(context)))

    async def edit_documentation(self, context: RequestContext) -> Response:
        """The documentation after the edit."""
        request = await context.edit(DocumentationEditRequest)
        entity = await load_summary(context)
        attributes = DocumentationAttributes(documentation=request.documentation)
        data = DocumentationData(id=entity.id, kind=entity.kind, attributes=attributes)
        return value_response(_documentation(await self._edit(context, EditEntityDocumentation(data=data))))

    async def _change_status(self, context: RequestContext, status: str, reason: str) -> Response:
        entity = await load_summary(context)
        # A repeated delete, whose answer was lost, succeeds again.
        if status == "Deleted" == entity.status:
            return model_response(Status(status=entity.status, reason=entity.reason))
        if status == "Terminated" != entity.status and entity.status in TERMINAL:
            raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status}: there is nothing to end")
        ended = await self.ending(context, entity, status) if self.ending else None
        stopped = _stop_sentence(entity) if status == "Deleted" else None
        in_use = await warning(context, entity) if status == "Deleted" else None
        patch = StatusPatch(status=status, reason=reason, message=None)
        data = StatusData(id=entity.id, kind=entity.kind, attributes=patch)
        content = orjson.loads(await self._edit(context, UpdateEntityStatus(data=data)))
        changed = Status(**{name: content.get(name) for name in Status.model_fields})
        message = "; ".join(filter(None, (ended, stopped, in_use)))
        return model_response(changed.model_copy(update={"message": message}) if message else changed)

    async def _edit(self, context: RequestContext, command: Edit) -> bytes:
        return await context.api.commands.edit(command, context.command_origin(), context.now)


@dataclass(frozen=True, kw_only=True)
class Collection(ReadCollection):
    """The handlers of one kind, whose entities are created by a request."""

    request: type[CreateRequest]
    build: Build
    privileged: bool = False
    """True if an administrator's request may have a securityContext."""
    turn: Turn | None = None
    """Names what new entities are counted against, if they are."""
    completed: Completed | None = None
    """Adds to the answer about a new entity what only its creator gets."""
    answer: Any = None
    """Type of the answer about a new entity, if it is not the entity's."""

    async def create(self, context: RequestContext) -> Response:
        content = await context.json()
        # The connection is watched from now on: a request whose client has gone must not be accepted
        # (docs/correctness.md, rule 7).
        context.reply.watch(context.request.receive)
        return await self.create_entity(context, content)

    async def create_entity(self, context: RequestContext, content: dict[str, object]) -> Response:
        """Return the new entity of a request's content, or the entity of an earlier request that this one repeats."""
        json = await self._accept(context, content)
        return json_response(await self.completed(context, json) if self.completed else json)

    async def _accept(self, context: RequestContext, content: dict[str, object]) -> bytes:
        privileged = self._admin_fields(context, content)
        try:
            request = self.request.model_validate(content)
        except ValidationError as error:
            raise invalid(error, self.request) from error
        if not context.access.allows(self.resource, "create", request.account, ""):
            raise Forbidden(
                f"account: the token lacks {self.resource}/create for account {request.account!r}",
                field="account",
            )
        origin = context.command_origin()
        if (
            earlier := await context.api.commands.find_accepted(request.account, origin, context.reply)
        ) is not None:
            return await _as_it_is_now(context, earlier)
        try:
            row, is_new = await self._new(context, request, origin, privileged)
        except (Conflict, Forbidden, Invalid, NotFound):
            repeated = await context.api.commands.find_repeat(
                request.account, origin, context.now, context.reply
            )
            if repeated is None:
                raise
            row, is_new = repeated, False
        return make_entity(row) if is_new else await _as_it_is_now(context, row)

    async def _new(
        self,
        context: RequestContext,
        request: CreateRequest,
        origin: CommandOrigin,
        privileged: dict[str, Any],
    ) -> tuple[OutboxRow, bool]:
        """Return the row of the new entity, or of an earlier request that this one repeats, and whether it is new."""
        key = origin.idempotency_key
        request, references = await take_secrets(context, request)
        # With a key, every repeat of the request gives the same id, also when the outbox has forgotten its row.
        id = derive_id(request.account, key) if key is not None else context.api.platform.new_id()
        new = NewEntity(id, request.account, context.now, privileged, references)
        async with AsyncExitStack() as stack:
            if self.turn is not None:
                await stack.enter_async_context(context.api.turns.hold(await self.turn(context, request)))
            try:
                entities = list(await self.build(context, request, new))
                if notes := tag_notes(context.tags):
                    annotations = [*entities[0].annotations, *notes]
                    entities[0] = entities[0].model_copy(update={"annotations": annotations})
            except ValidationError as error:
                raise invalid(error) from error
            return await context.api.commands.create(entities, origin, context.now, context.reply)

    def _admin_fields(self, context: RequestContext, content: dict[str, object]) -> dict[str, object]:
        if not self.privileged or "securityContext" not in content:
            return {}
        if not context.access.administrator:
            raise Forbidden("securityContext: takes an administrator's grant", field="securityContext")
        try:
            return {"securityContext": SecurityContext.model_validate(content.pop("securityContext")).dump()}
        except ValidationError as error:
            raise invalid(error, SecurityContext) from error


async def _as_it_is_now(context: RequestContext, row: OutboxRow) -> bytes:
    """Return the entity of a row that a request repeats: the row may be older than the entity's last change."""
    return await context.api.entities.get(row.kind, row.entity) or make_entity(row)


def _stop_sentence(entity: EntitySummary) -> str | None:
    """Return a sentence about a workflow that runs while it is deleted, or None."""
    if entity.kind not in WITH_WORKFLOW or entity.status != "Admitted":
        return None
    return f"{entity.kind} {entity.id} was running, and is being stopped"


def _documentation(json: bytes) -> dict[str, object]:
    entity = orjson.loads(json)
    documentation = (entity.get("metadata") or {}).get("documentation") or {}
    return {**documentation, "schemaVersion": "0.1", "entity": entity["id"]}
