"""EndpointSlices."""

from steelyard.local.apiserver.errors import Cause, required, unsupported
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.messages import Json
from steelyard.local.apiserver.rules.common import defaults, immutable

_TYPES = ["IPv4", "IPv6", "FQDN"]


def _default(obj: Json) -> None:
    defaults(obj, endpoints=[])
    for endpoint in obj["endpoints"]:
        defaults(endpoint, conditions={})
    for port in obj.get("ports") or ():
        defaults(port, name="", protocol="TCP")


def _check(obj: Json, old: Json | None) -> list[Cause]:
    kind = obj.get("addressType")
    causes = [] if kind in _TYPES else [unsupported("addressType", kind or "", _TYPES)]
    for index, endpoint in enumerate(obj["endpoints"]):
        if not endpoint.get("addresses"):
            causes.append(required(f"endpoints[{index}].addresses", "must contain at least 1 address"))
    return causes + immutable(obj, old, "addressType")


ENDPOINT_SLICE = Rules(default=_default, check=_check)
