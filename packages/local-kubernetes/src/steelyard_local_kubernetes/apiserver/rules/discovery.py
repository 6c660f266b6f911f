"""EndpointSlices."""

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, not_supported
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.names import key_causes, name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults, immutable
from steelyard_local_kubernetes.apiserver.rules.fields import (
    PROTOCOLS,
    at_most,
    choice_causes,
    duplicates,
    ip_causes,
    port_number,
)

_TYPES = ["FQDN", "IPv4", "IPv6"]


def _default(obj: Json) -> None:
    for endpoint in sequence(obj, "endpoints"):
        defaults(endpoint, conditions={})
    for port in sequence(obj, "ports"):
        defaults(port, name="", protocol="TCP")


def _check(obj: Json, old: Json | None) -> list[Cause]:
    kind = obj.get("addressType")
    causes = [] if kind in _TYPES else [not_supported("addressType", kind or "", _TYPES)]
    endpoints, ports = sequence(obj, "endpoints"), sequence(obj, "ports")
    causes += at_most("endpoints", len(endpoints), 1000) + at_most("ports", len(ports), 20000)
    causes += duplicates((port["name"] for port in ports), "ports", "name")
    for index, port in enumerate(ports):
        causes += _port_causes(port, f"ports[{index}]")
    for index, endpoint in enumerate(endpoints):
        causes += _endpoint_causes(endpoint, kind or "", f"endpoints[{index}]")
    return causes + immutable(obj, old, "addressType")


def _endpoint_causes(endpoint: Json, kind: str, path: str) -> list[Cause]:
    addresses, where = sequence(endpoint, "addresses"), f"{path}.addresses"
    causes = at_most(where, len(addresses), 100)
    if not addresses:
        causes.append(missing_value(where, "must contain at least 1 address"))
    for index, address in enumerate(addresses):
        causes += _address_causes(address, kind, where, index)
    if host := endpoint.get("hostname"):
        causes += name_causes(host, f"{path}.hostname", "label")
    return causes


def _address_causes(address: str, kind: str, path: str, index: int) -> list[Cause]:
    """Loopback addresses, which a real server refuses, are those of Pods here."""
    if kind == "FQDN":
        return name_causes(address, f"{path}[{index}]")
    causes = ip_causes(address, f"{path}[{index}]")
    if not causes and (":" in address) is not (kind == "IPv6"):
        causes.append(invalid(path, address, f"must be an {kind} address"))
    return causes


def _port_causes(port: Json, path: str) -> list[Cause]:
    causes = name_causes(port["name"], f"{path}.name", "label") if port["name"] else []
    if port.get("port") is not None:
        causes += port_number(port["port"], f"{path}.port")
    causes += choice_causes(port["protocol"], f"{path}.protocol", PROTOCOLS)
    name = port.get("appProtocol")
    return causes + (key_causes(name, f"{path}.appProtocol") if name is not None else [])


ENDPOINT_SLICE = Rules(default=_default, check=_check)
