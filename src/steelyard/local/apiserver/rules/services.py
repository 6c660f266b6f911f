"""Services: with an address, headless, or another name. `service_types.py` has what their type means,
`service_families.py` what their addresses are."""

import ipaddress

import orjson

from steelyard.kube.objects import spec_of
from steelyard.local.apiserver.errors import Cause, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.names import key_causes, labels_causes, name_causes
from steelyard.local.apiserver.rules import service_families as families
from steelyard.local.apiserver.rules import service_types as types
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.fields import PROTOCOLS, duplicates, ip_causes, one_of, port_number
from steelyard.local.apiserver.rules.fields import port as any_port
from steelyard.local.apiserver.rules.table import Rule, causes_by, choice
from steelyard.types import Json, mapping, sequence


def _prepare(service: Json) -> None:
    service["status"] = {"loadBalancer": {}}
    families.complete_families(service.setdefault("spec", {}), {})


def _carry(old: Json, new: Json) -> None:
    types.carry(old, new)
    if spec := spec_of(new):
        families.keep_addresses(spec_of(old), spec)
        families.complete_families(spec, spec_of(old))


def _trim(service: Json) -> None:
    families.add_families(service["spec"])


def _default(service: Json) -> None:
    spec = service.setdefault("spec", {})
    defaults(spec, type="ClusterIP", sessionAffinity="None")
    types.add_type_defaults(spec)
    if spec["sessionAffinity"] == "ClientIP":
        defaults(spec, sessionAffinityConfig={"clientIP": {"timeoutSeconds": 10_800}})
    for port in sequence(spec, "ports"):
        defaults(port, protocol="TCP")
        if not port.get("targetPort") and port.get("port"):
            port["targetPort"] = port["port"]


def _check(service: Json, old: Json | None) -> list[Cause]:
    spec, before = service["spec"], spec_of(old)
    known = families.family_causes(before, before) if before else []
    if own := [cause for cause in families.family_causes(spec, before) if cause not in known]:
        return own
    causes = families.changed_address_causes(spec, before)
    causes += labels_causes(mapping(spec, "selector"), "spec.selector")
    ports = sequence(spec, "ports")
    # A headless Service only gives names to its Pods, and forwards no port.
    if not ports and spec.get("clusterIP") != "None" and not types.is_external_name(spec):
        causes.append(required("spec.ports"))
    for index, port in enumerate(ports):
        causes += _port_causes(port, f"spec.ports[{index}]", several=len(ports) > 1)
    causes += duplicates((port.get("name") or "" for port in ports), "spec.ports", "name", empty=True)
    causes += _twice(ports) + types.node_port_causes(spec)
    causes += one_of(spec["sessionAffinity"], "spec.sessionAffinity", ["ClientIP", "None"])
    for index, address in enumerate(sequence(spec, "externalIPs")):
        causes += ip_causes(address, f"spec.externalIPs[{index}]") or _loopback(
            address, f"spec.externalIPs[{index}]"
        )
    causes += one_of(spec["type"], "spec.type", types.TYPES)
    if types.is_external_name(spec):
        causes += types.external_name_causes(spec)
    return causes + types.type_causes(spec) + causes_by(_TRAFFIC, spec, "spec")


def _loopback(address: str, path: str) -> list[Cause]:
    if not ipaddress.ip_address(address).is_loopback:
        return []
    return [invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]


def _traffic(spec: Json, path: str) -> list[Cause]:
    value = spec.get("externalTrafficPolicy")
    if value is None or types.is_reached_from_outside(spec):
        return choice("externalTrafficPolicy", "Cluster", "Local")(spec, path)
    text = "may only be set for externally-accessible services"
    return [invalid(f"{path}.externalTrafficPolicy", value, text)]


_TRAFFIC: tuple[Rule, ...] = (
    _traffic,
    choice("internalTrafficPolicy", "Cluster", "Local"),
    choice("trafficDistribution", "PreferClose", "PreferSameZone", "PreferSameNode"),
)


def _warn(service: Json, old: Json | None) -> list[str]:
    if not service["spec"].get("externalName") or types.is_external_name(service["spec"]):
        return []
    return ['spec.externalName is ignored when spec.type is not "ExternalName"']


def _twice(ports: list[Json]) -> list[Cause]:
    """One port of one protocol leads to one place."""
    seen: set[tuple[str, int]] = set()
    causes = []
    for index, port in enumerate(ports):
        key = port["protocol"], port.get("port") or 0
        if key in seen:
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0}
            text = f"Duplicate value: {orjson.dumps(shown | {'NodePort': 0}).decode()}"
            causes.append(Cause(f"spec.ports[{index}]", text, "FieldValueDuplicate"))
        seen.add(key)
    return causes


def _port_causes(port: Json, path: str, *, several: bool) -> list[Cause]:
    causes: list[Cause] = []
    if several and not port.get("name"):
        causes.append(required(f"{path}.name"))
    if port.get("name"):
        causes += name_causes(port["name"], f"{path}.name", "label")
    causes += port_number(port.get("port") or 0, f"{path}.port")
    if port["protocol"] not in PROTOCOLS:
        causes.append(unsupported(f"{path}.protocol", port["protocol"], PROTOCOLS))
    elif port["protocol"] == "SCTP":
        causes.append(unsupported(f"{path}.protocol", port["protocol"], ["TCP", "UDP"]))
    causes += any_port(port.get("targetPort"), f"{path}.targetPort")
    if port.get("appProtocol") is not None:
        causes += key_causes(port["appProtocol"], f"{path}.appProtocol")
    return causes


SERVICE = Rules(prepare=_prepare, default=_default, check=_check, trim=_trim, warn=_warn, carry=_carry)
