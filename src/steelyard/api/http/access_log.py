"""The access log: who has asked for what, and what the answer was. Switched on by the setting `api.access_log`.

One JSON object a line, at level INFO of the logger `steelyard.access`. It has no query, body, header or signature:
nothing that is secret.
"""

import json
import logging

from starlette.types import Scope

from steelyard.api.http.access import Access, Public
from steelyard.api.http.routing import Match

_log = logging.getLogger("steelyard.access")
CALLER = "steelyard.caller"
"""Key of a connection's scope for its caller's rights, once the token is verified."""
_LONGEST = 200
"""Maximum characters of an id from a path: anybody may write a longer one."""


def record_access(match: Match, scope: Scope, status: int) -> None:
    """Log an answer; answers of public routes and of unknown paths are left out."""
    route = match.route
    if route is None or isinstance(route.check, Public):
        return
    access = scope.get(CALLER)
    principal = access.principal if isinstance(access, Access) else None
    line = {
        "subject": principal.subject if principal else None,
        "token": principal.key_id if principal else None,
        "method": route.method,
        "route": route.path,
        "entity": (match.values.get("id") or match.values.get("key") or "")[:_LONGEST] or None,
        "status": status,
    }
    # A path may hold characters that orjson refuses (lone surrogates), and the log must not fail the request.
    _log.info("%s", json.dumps(line))
