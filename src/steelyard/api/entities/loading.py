"""Loads the entity that a path names, for a caller who may call the route's function for it.

An entity that the caller may not see does not exist for the caller (404); one that may be seen, but not used in this
way, is forbidden (403). The public entities of other accounts may be read by the routes whose grant says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, NotFound
from steelyard_schema.account import APIResource
from steelyard_schema.entities import ENTITIES, PLURALS, AnyEntity
from steelyard_schema.faults import fault_message
from steelyard_schema.publication import is_public

_KINDS = {plural: kind for kind, plural in PLURALS.items()}


async def load_json(context: RequestContext) -> bytes:
    """Return the entity as it is published. Raises NotFound, Forbidden."""
    return await _read_permitted(context, _grant(context), context.id)


@dataclass(frozen=True)
class EntitySummary:
    """The fields that an edit needs. An entity that only an older schema accepts has them too."""

    id: str
    kind: str
    status: str
    reason: str | None
    content: Mapping[str, Any]
    """The whole entity, as JSON."""


async def load_summary(context: RequestContext) -> EntitySummary:
    """Return the summary of the entity. Raises NotFound, Forbidden."""
    content = orjson.loads(await load_json(context))
    return EntitySummary(content["id"], content["kind"], content["status"], content.get("reason"), content)


async def load(context: RequestContext) -> AnyEntity:
    """Return the entity. Raises NotFound, Forbidden, and Conflict for one that only an older schema accepts."""
    return parse(_KINDS[_grant(context).resource], await load_json(context))


async def load_other(context: RequestContext, resource: APIResource, id: str) -> AnyEntity:
    """Return another entity than the path's, if the caller may read its files. Raises as `load` does."""
    return parse(_KINDS[resource], await _read_permitted(context, Grant(resource, "data"), id))


def parse(kind: str, json: bytes) -> AnyEntity:
    """Return the entity. Raises Conflict for one that only an older schema accepts: it can only be deleted."""
    try:
        return ENTITIES[kind].model_validate_json(json)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(map(str, fault["loc"]))
        raise Conflict(
            f"{field}: {kind} {orjson.loads(json)['id']} was made by an older version, and cannot be used by this one: "
            f"{fault_message(fault, ENTITIES[kind])}"
        ) from error


def status_reason(entity: AnyEntity) -> str:
    """Return why an entity has its status, in brackets behind a space; nothing where there is no reason."""
    why = ": ".join(filter(None, (entity.reason, entity.message)))
    return f" ({why})" if why else ""


def _grant(context: RequestContext) -> Grant:
    """Return the grant that the route needs: routes with an entity in their path always need one."""
    assert isinstance(context.check, Grant)
    return context.check


async def _read_permitted(context: RequestContext, grant: Grant, id: str) -> bytes:
    kind = _KINDS[grant.resource]
    json = await context.api.entities.get(kind, id)
    unknown = NotFound(f"{_field(context, grant, id)}: there is no {kind} {id}")
    if json is None:
        raise unknown
    reach = context.access.reach(grant)
    # By the entity's id alone, such as a session's token has it: its JSON need not be parsed.
    if reach.everything or id in reach.entities:
        return json
    content = orjson.loads(json)
    account = str(content["account"])
    if reach.covers(account, id):
        return json
    if grant.published and is_public(content):
        return json
    if context.access.allows(grant.resource, "get", account, id):
        raise Forbidden(f"the token lacks {grant.resource}/{grant.function} for {kind} {id}")
    raise unknown


def _field(context: RequestContext, grant: Grant, id: str) -> str:
    """Return what the request calls an entity: `id` where its path names no other thing, else the kind."""
    if id == context.id and len(context.values) == 1:
        return "id"
    return "family" if grant.resource == "families" else grant.resource.removesuffix("s")
