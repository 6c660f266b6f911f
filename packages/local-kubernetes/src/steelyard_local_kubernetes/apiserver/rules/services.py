"""Services: with an address, headless, or another name. `service_types.py` has what their type means,
`service_families.py` what their addresses are."""

import ipaddress

import orjson

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations, read_spec
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.kinds import Rules, find_field
from steelyard_local_kubernetes.apiserver.names import key_causes, labels_causes, name_causes
from steelyard_local_kubernetes.apiserver.rules import service_families as families
from steelyard_local_kubernetes.apiserver.rules import service_types as types
from steelyard_local_kubernetes.apiserver.rules.common import defaults
from steelyard_local_kubernetes.apiserver.rules.fields import (
    PROTOCOLS,
    duplicate,
    ip_causes,
    network_causes,
    network_warnings,
    port_number,
)
from steelyard_local_kubernetes.apiserver.rules.fields import port as any_port
from steelyard_local_kubernetes.apiserver.rules.table import Rule, causes_by, choice, values


def _prepare(service: Json) -> None:
    service["status"] = {"loadBalancer": {}}
    families.complete_families(service.setdefault("spec", {}), {})


def _carry(old: Json, new: Json) -> None:
    types.carry(old, new)
    if spec := read_spec(new):
        families.keep_addresses(read_spec(old), spec)
        families.complete_families(spec, read_spec(old))


def _trim(service: Json) -> None:
    families.add_families(service["spec"])


def _default(service: Json) -> None:
    spec = service.setdefault("spec", {})
    defaults(spec, type="ClusterIP", sessionAffinity="None")
    types.add_type_defaults(spec)
    spec["sessionAffinity"] = spec["sessionAffinity"] or "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP" and find_field(spec, *_SECONDS) is None:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10_800}}
    for port in sequence(spec, "ports"):
        defaults(port, protocol="TCP")
        if not port.get("targetPort") and port.get("port"):
            port["targetPort"] = port["port"]


def _check(service: Json, old: Json | None) -> list[Cause]:
    spec, before = service["spec"], read_spec(old)
    known = families.family_causes(before, before) if before else []
    if own := [cause for cause in families.family_causes(spec, before) if cause not in known]:
        return own
    causes = families.address_change_causes(spec, before) + types.class_change_causes(spec, before)
    causes += causes_by(_METADATA, service, "") + causes_by(_SPEC, spec, "spec")
    causes += _range_causes(service, before, read_annotations(old))
    return causes + causes_by(_TRAFFIC, spec, "spec")


def _hints_causes(service: Json, path: str) -> list[Cause]:
    """One thing that two annotations say."""
    values = [read_annotations(service).get(name) for name in (_MODE, _HINTS)]
    if None in values or values[0] == values[1]:
        return []
    text = f"must match annotations[{_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{_MODE}]", values[0], text)]


def _missing_ports_causes(spec: Json, path: str) -> list[Cause]:
    # A headless Service only gives names to its Pods, and forwards no port.
    needless = sequence(spec, "ports") or spec.get("clusterIP") == "None" or types.is_external_name(spec)
    return [] if needless else [missing_value(f"{path}.ports")]


def _ports_causes(spec: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    ports = sequence(spec, "ports")
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}.ports[{index}]", port.get("name") or ""
        if name:
            causes += name_causes(name, f"{where}.name", "label")
        elif len(ports) > 1:
            causes.append(missing_value(f"{where}.name"))
        if name in names:
            causes.append(duplicate(f"{where}.name", name))
        names |= {name} - {""}
        causes += _port_causes(port, where)
    return causes


def _port_causes(port: Json, path: str) -> list[Cause]:
    causes = port_number(port.get("port") or 0, f"{path}.port")
    if port["protocol"] not in PROTOCOLS:
        causes.append(not_supported(f"{path}.protocol", port["protocol"], PROTOCOLS))
    elif port["protocol"] == "SCTP":
        causes.append(not_supported(f"{path}.protocol", port["protocol"], ["TCP", "UDP"]))
    causes += any_port(port.get("targetPort"), f"{path}.targetPort")
    if port.get("appProtocol") is not None:
        causes += key_causes(port["appProtocol"], f"{path}.appProtocol")
    return causes


def _selector_causes(spec: Json, path: str) -> list[Cause]:
    return labels_causes(mapping(spec, "selector"), f"{path}.selector")


def _affinity_causes(spec: Json, path: str) -> list[Cause]:
    seconds = find_field(spec, *_SECONDS)
    if spec["sessionAffinity"] != "ClientIP" or 0 < seconds <= _LONGEST_AFFINITY:
        return choice("sessionAffinity", "ClientIP", "None")(spec, path)
    text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
    return [invalid(f"{path}.{'.'.join(_SECONDS)}", seconds, text)]


def _outside_causes(address: str, path: str) -> list[Cause]:
    """Addresses by which traffic from outside may come."""
    if causes := ip_causes(address, path):
        return causes
    parsed = ipaddress.ip_address(address)
    own = parsed.ipv4_mapped or parsed if isinstance(parsed, ipaddress.IPv6Address) else parsed
    texts = (
        (own.is_unspecified, f"may not be unspecified ({address})"),
        (own.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (own.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            own in _LOCAL_MULTICAST[own.version],
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    )
    return [invalid(path, address, text) for wrong, text in texts if wrong]


def _twice(spec: Json, path: str) -> list[Cause]:
    """One port of one protocol leads to one place."""
    seen: set[tuple[str, int]] = set()
    causes = []
    for index, port in enumerate(sequence(spec, "ports")):
        key = port["protocol"], port.get("port") or 0
        if key in seen:
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0}
            text = f"Duplicate value: {orjson.dumps(shown | {'NodePort': 0}).decode()}"
            causes.append(Cause(f"{path}.ports[{index}]", text, "FieldValueDuplicate"))
        seen.add(key)
    return causes


def _range_causes(service: Json, before: Json, annotations: Json) -> list[Cause]:
    """Networks from which a balancer takes traffic, of the field or else of an older annotation."""
    spec, annotated = service["spec"], read_annotations(service)
    ranges, where = sequence(spec, "loadBalancerSourceRanges"), "spec.LoadBalancerSourceRanges"
    if not ranges and _RANGES not in annotated:
        return []
    known = [block.strip() for block in sequence(before, "loadBalancerSourceRanges")]
    places = [f"{where}[{index}]" for index in range(len(ranges))]
    if not ranges:
        where = f"metadata.annotations[{_RANGES}]"
        text = annotated[_RANGES].strip()
        ranges = text.split(",") if text and annotated[_RANGES] != annotations.get(_RANGES) else []
        known, places = [], [where] * len(ranges)
    causes: list[Cause] = []
    if not types.is_balanced(spec):
        causes.append(forbidden_field(where, "may only be used when `type` is 'LoadBalancer'"))
    for block, place in zip(ranges, places, strict=True):
        causes += network_causes(block.strip(), place) if block.strip() not in known else []
    return causes


_MODE = "service.kubernetes.io/topology-mode"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_SECONDS = ("sessionAffinityConfig", "clientIP", "timeoutSeconds")
_LONGEST_AFFINITY = 86_400
_LOCAL_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}
# In the order of a real server.
_METADATA: tuple[Rule, ...] = (_hints_causes,)
_SPEC: tuple[Rule, ...] = (
    _missing_ports_causes,
    types.headless_causes,
    types.external_name_causes,
    _ports_causes,
    _selector_causes,
    _affinity_causes,
    values("externalIPs", _outside_causes),
    choice("type", *types.TYPES),
    types.node_port_causes,
    _twice,
)
_TRAFFIC: tuple[Rule, ...] = (
    types.balancer_causes,
    types.outside_policy_causes,
    choice("internalTrafficPolicy", "Cluster", "Local"),
    choice("trafficDistribution", "PreferClose", "PreferSameZone", "PreferSameNode"),
)


def _warn(service: Json, old: Json | None) -> list[str]:
    spec, named = service["spec"], types.is_external_name(service["spec"])
    texts = []
    if _HINTS in read_annotations(service):
        texts.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    if spec["type"] == "ClusterIP" and spec.get("clusterIP") == "None":
        ignored = [f"spec.{name}" for name in ("loadBalancerIP", "externalIPs") if spec.get(name)]
        ignored += ["spec.SessionAffinity"] if spec["sessionAffinity"] != "None" else []
        texts += [f"{name} is ignored for headless services" for name in ignored]
    for index, block in enumerate(sequence(spec, "loadBalancerSourceRanges")):
        texts += network_warnings(block, f"spec.loadBalancerSourceRanges[{index}]")
    if named and spec.get("externalIPs"):
        texts.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if spec.get("externalName") and not named:
        texts.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return texts


SERVICE = Rules(prepare=_prepare, default=_default, check=_check, trim=_trim, warn=_warn, carry=_carry)
