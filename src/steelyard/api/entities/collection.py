"""The one generic collection: what every kind of entity is asked and told, driven by the table in `kinds.py`."""

import re
from dataclasses import dataclass, replace
from typing import ClassVar

import orjson
from pydantic import ValidationError
from starlette.responses import Response

from steelyard.api.commands.commands import Edit, derived_id
from steelyard.api.entities.creation import Base, Build
from steelyard.api.entities.dependents import warning
from steelyard.api.entities.loading import load_json, load_known
from steelyard.api.entities.reading import created
from steelyard.api.http.context import Call, answer, json_of, json_response
from steelyard.api.http.errors import Conflict, Forbidden, Invalid, invalid
from steelyard.schema.account import APIResource
from steelyard.schema.answers import Status
from steelyard.schema.commands import (
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
from steelyard.schema.entities import PLURALS, AnyEntity
from steelyard.schema.requests import CreateRequest, DocumentationEditRequest, LabelsEditRequest
from steelyard.schema.security import SecurityContext
from steelyard.schema.status import TERMINAL
from steelyard.views.parse import parse_query
from steelyard.views.view import BadQuery

_RESERVED = re.compile(r"(([^/]+\.)?dyff\.io|steelyard)/")
ACCESS = {"public", "internal", None}
"""Values of the one reserved label that is set through the ordinary route: who sees the entity outside."""


@dataclass(frozen=True)
class Collection:
    """The handlers of one kind."""

    kind: str
    request: type[CreateRequest]
    build: Build
    privileged: bool = False
    """Whether an administrator's request may have a securityContext."""

    most: ClassVar[str] = "steelyard-more"

    @property
    def resource(self) -> APIResource:
        return PLURALS[self.kind]  # type: ignore[return-value]

    async def create(self, call: Call) -> Response:
        return json_response(await self.created(call))

    async def created(self, call: Call) -> bytes:
        """The JSON of the new entity, or of the one that an earlier request like this one has made."""
        content = await call.json()
        call.reply.watch(call.request.receive)
        more = self._privileges(call, content)
        try:
            request = self.request.model_validate(content)
        except ValidationError as error:
            raise invalid(error) from error
        if not call.access.allows(self.resource, "create", request.account, ""):
            raise Forbidden(
                f"account: the token lacks {self.resource}/create for account {request.account!r}",
                field="account",
            )
        asker = call.asker()
        key = asker.idempotency_key
        id = derived_id(request.account, key) if key is not None else call.api.platform.new_id()
        entities = await self._built(call, request, Base(id, request.account, call.now, more))
        row, new = await call.api.commands.create(entities, asker, call.now, call.reply)
        return created(row) if new else await call.api.entities.get(row.kind, row.entity) or created(row)

    async def get(self, call: Call) -> Response:
        return json_response(await load_json(call))

    async def query(self, call: Call) -> Response:
        """A JSON array. With more entities than one answer holds, the header `steelyard-more` says so."""
        scope = call.access.scope(self.resource, "query")
        most = call.api.platform.settings.query_limit
        try:
            query = parse_query(self.kind, call.query, scope)
            limit = min(query.limit or most, most)
            found = await call.api.entities.query(replace(query, limit=limit + 1))
        except BadQuery as error:
            raise Invalid(str(error), field=error.field) from error
        response = json_response(b"[%s]" % b",".join(found[:limit]))
        if len(found) > limit:
            response.headers[self.most] = "true"
        return response

    async def delete(self, call: Call) -> Response:
        """What uses it is no hindrance, and is told in `message`."""
        return await self._change_status(call, "Deleted", "DeleteCommand")

    async def terminate(self, call: Call) -> Response:
        return await self._change_status(call, "Terminated", "TerminateCommand")

    async def label(self, call: Call) -> Response:
        """The labels as they are then."""
        request = await call.edit(LabelsEditRequest)
        entity = await load_known(call)
        _check_reserved(request)
        patch = LabelsPatch(labels=request.labels)
        data = LabelsData(id=entity.id, kind=entity.kind, attributes=patch)
        json = await self._edit(call, EditEntityLabels(data=data))
        return json_of({"labels": orjson.loads(json).get("labels", {})})

    async def documentation(self, call: Call) -> Response:
        return json_of(_documentation(await load_json(call)))

    async def edit_documentation(self, call: Call) -> Response:
        """The documentation as it is then."""
        request = await call.edit(DocumentationEditRequest)
        entity = await load_known(call)
        attributes = DocumentationAttributes(documentation=request.documentation)
        data = DocumentationData(id=entity.id, kind=entity.kind, attributes=attributes)
        return json_of(_documentation(await self._edit(call, EditEntityDocumentation(data=data))))

    async def _built(self, call: Call, request: CreateRequest, base: Base) -> list[AnyEntity]:
        try:
            return list(await self.build(call, request, base))
        except ValidationError as error:
            raise invalid(error) from error

    def _privileges(self, call: Call, content: dict[str, object]) -> dict[str, object]:
        if not self.privileged or "securityContext" not in content:
            return {}
        if not call.access.administrator:
            raise Forbidden("securityContext: takes an administrator's grant", field="securityContext")
        try:
            return {"securityContext": SecurityContext.model_validate(content.pop("securityContext")).dump()}
        except ValidationError as error:
            raise invalid(error) from error

    async def _change_status(self, call: Call, status: str, reason: str) -> Response:
        entity = await load_known(call)
        if entity.status == "Deleted" == status:
            return answer(Status(status=entity.status, reason=entity.reason))
        if status == "Terminated" != entity.status and entity.status in TERMINAL:
            raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status}: there is nothing to end")
        used = await warning(call, entity) if status == "Deleted" else None
        patch = StatusPatch(status=status, reason=reason, message=None)
        data = StatusData(id=entity.id, kind=entity.kind, attributes=patch)
        content = orjson.loads(await self._edit(call, UpdateEntityStatus(data=data)))
        told = Status(**{name: content.get(name) for name in Status.model_fields})
        return answer(told.model_copy(update={"message": used}) if used else told)

    async def _edit(self, call: Call, command: Edit) -> bytes:
        return await call.api.commands.edit(command, call.asker(), call.now)


def _check_reserved(request: LabelsEditRequest) -> None:
    for key, value in request.labels.items():
        if not _RESERVED.match(key) or key.startswith("usecases.dyff.io/"):
            continue
        if key != "dyff.io/access" or value not in ACCESS:
            raise Invalid(
                f"labels: {key} is the platform's own; of these, dyff.io/access may be public, internal or null",
                field="labels",
            )


def _documentation(json: bytes) -> dict[str, object]:
    entity = orjson.loads(json)
    said = (entity.get("metadata") or {}).get("documentation") or {}
    return {**said, "schemaVersion": "0.1", "entity": entity["id"]}
