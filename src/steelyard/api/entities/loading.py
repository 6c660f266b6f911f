"""An entity that a path names: found, seen by the caller, and open to the function that the route asks for.

What the caller may not see is not there; what may be seen and not touched is forbidden.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ValidationError

from steelyard.api.http.errors import Conflict, Forbidden, NotFound
from steelyard.api.http.routing import Grant
from steelyard.schema.account import APIResource
from steelyard.schema.entities import ENTITIES, PLURALS, AnyEntity

if TYPE_CHECKING:
    from steelyard.api.http.context import Call

_BY_RESOURCE = {plural: kind for kind, plural in PLURALS.items()}


async def load_json(call: "Call") -> bytes:
    """The entity as it goes out. Raises NotFound, Forbidden."""
    check = call.route.check
    assert isinstance(check, Grant)
    return await _open_json(call, check, call.id)


async def _open_json(call: "Call", check: Grant, id: str) -> bytes:
    kind = _BY_RESOURCE[check.resource]
    json = await call.api.entities.get(kind, id)
    if json is None:
        raise NotFound(f"id: there is no {kind} {id}")
    if call.access.everywhere(check.resource, check.function):
        return json
    account = str(orjson.loads(json)["account"])
    if call.access.allows(check.resource, check.function, account, id):
        return json
    if call.access.allows(check.resource, "get", account, id):
        raise Forbidden(f"the token lacks {check.resource}/{check.function} for {kind} {id}")
    raise NotFound(f"id: there is no {kind} {id}")


@dataclass(frozen=True)
class Known:
    """Facts about an entity that an edit needs: also about one that an older schema took, and this one does not."""

    id: str
    kind: str
    status: str
    reason: str | None
    content: Mapping[str, Any]


async def load_known(call: "Call") -> Known:
    """Raises NotFound, Forbidden."""
    content = orjson.loads(await load_json(call))
    return Known(content["id"], content["kind"], content["status"], content.get("reason"), content)


async def load(call: "Call") -> AnyEntity:
    """The entity, parsed. Raises NotFound, Forbidden, and Conflict where the schema does not take it any more."""
    json = await load_json(call)
    check = call.route.check
    assert isinstance(check, Grant)
    return parsed(_BY_RESOURCE[check.resource], json)


async def load_other(call: "Call", resource: APIResource, id: str) -> AnyEntity:
    """Another entity than the path's, whose files the caller may have. Raises as `load` does."""
    return parsed(_BY_RESOURCE[resource], await _open_json(call, Grant(resource, "data"), id))


def parsed(kind: str, json: bytes) -> AnyEntity:
    """Raises Conflict for an entity that an older schema took, and this one does not: it can only be deleted."""
    try:
        return ENTITIES[kind].model_validate_json(json)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, fault["loc"]))
        raise Conflict(
            f"{field}: {kind} {orjson.loads(json)['id']} was made by an older version, and cannot be used by this one: "
            f"{fault['msg']}"
        ) from error
