"""The access log: who has asked for what, and what the answer was. Switched on by the setting `api.access_log`.

One JSON object a line, at level INFO of the logger `steelyard.access`. It has no query, body, header or signature:
nothing that is secret.
"""

import json
import logging

from starlette.types import Scope

from steelyard.api.http.access import Access, Grant, Public, SignedUrl
from steelyard.api.http.routing import Match

_log = logging.getLogger("steelyard.access")
CALLER = "steelyard.caller"
"""Key of a connection's scope for its caller's rights, once the token is verified."""
SIGNED_FOR = "steelyard.signed-for"
"""Key of a connection's scope for the id of the token that a verified URL was signed for."""
_LONGEST = 200
"""Maximum characters of a value from a path: anybody may write a longer one."""
_ENTITY = ("id", "key")
"""Names of the path's parameters that say which entity, or which object of a signed URL, is meant."""


def record_access(match: Match, scope: Scope, status: int) -> None:
    """Log an answer; answers of public routes and of unknown paths are left out."""
    route = match.route
    if route is None or isinstance(route.check, Public):
        return
    access = scope.get(CALLER)
    principal = access.principal if isinstance(access, Access) else None
    line = {
        "subject": principal.subject if principal else None,
        "token": principal.key_id if principal else scope.get(SIGNED_FOR) or None,
        "method": route.method,
        "route": route.path,
        "function": _function(route.check),
        "entity": next((_cut(match.values[name]) for name in _ENTITY if match.values.get(name)), None),
        "parameters": {name: _cut(value) for name, value in match.values.items() if name not in _ENTITY},
        "status": status,
    }
    # A path may hold characters that orjson refuses (lone surrogates), and the log must not fail the request.
    _log.info("%s", json.dumps(line))


def _function(check: object) -> str | None:
    """Return the requested right, in the words of grants."""
    if isinstance(check, Grant):
        return f"{check.resource}/{check.function}"
    return "signed URL" if isinstance(check, SignedUrl) else None


def _cut(value: str) -> str:
    return value[:_LONGEST]
