"""An entity that a path names: found, seen by the caller, and open to the function that the route asks for.

What the caller may not see is not there; what may be seen and not touched is forbidden.
"""

from typing import TYPE_CHECKING

import orjson

from steelyard.api.errors import Forbidden, NotFound
from steelyard.api.routing import Grant
from steelyard.schema.entities import ENTITIES, PLURALS, AnyEntity

if TYPE_CHECKING:
    from steelyard.api.call import Call

_BY_RESOURCE = {plural: kind for kind, plural in PLURALS.items()}


async def load_json(call: "Call") -> bytes:
    """The entity as it goes out. Raises NotFound, Forbidden."""
    check = call.route.check
    assert isinstance(check, Grant)
    kind = _BY_RESOURCE[check.resource]
    json = await call.api.entities.get(kind, call.id)
    if json is None:
        raise NotFound(f"id: there is no {kind} {call.id}")
    if call.access.everywhere(check.resource, check.function):
        return json
    account = str(orjson.loads(json)["account"])
    if call.access.allows(check.resource, check.function, account, call.id):
        return json
    if call.access.allows(check.resource, "get", account, call.id):
        raise Forbidden(f"the token lacks {check.resource}/{check.function} for {kind} {call.id}")
    raise NotFound(f"id: there is no {kind} {call.id}")


async def load(call: "Call") -> AnyEntity:
    """The entity, parsed."""
    json = await load_json(call)
    check = call.route.check
    assert isinstance(check, Grant)
    return ENTITIES[_BY_RESOURCE[check.resource]].model_validate_json(json)
