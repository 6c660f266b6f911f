"""Fields of a Service by its type: their defaults, what an update drops or keeps, and their faults.

`services.py` asks it; node ports and addresses are given out by `admission/node_ports.py` and `admission/server.py`.
"""

from steelyard.kube.objects import spec_of
from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required
from steelyard.local.apiserver.names import name_causes
from steelyard.local.apiserver.rules.common import defaults
from steelyard.types import Json, sequence

TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
OUTSIDE = ("NodePort", "LoadBalancer")
_FAMILY = ("ipFamilies", "ipFamilyPolicy")


def is_external_name(spec: Json) -> bool:
    return spec.get("type") == "ExternalName"


def needs_node_ports(spec: Json) -> bool:
    """Return whether each port without a node port gets one."""
    balanced = is_balanced(spec) and spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort" or balanced


def is_reached_from_outside(spec: Json) -> bool:
    return spec.get("type") in OUTSIDE or bool(sequence(spec, "externalIPs"))


def needs_health_check_port(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_balanced(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer"


def has_address(spec: Json) -> bool:
    return not is_external_name(spec)


_FIELDS_OF_TYPES = (
    ((*_FAMILY, "internalTrafficPolicy"), has_address),
    (("externalTrafficPolicy",), is_reached_from_outside),
    (("allocateLoadBalancerNodePorts", "loadBalancerClass"), is_balanced),
    (("healthCheckNodePort",), needs_health_check_port),
)


def add_type_defaults(spec: Json) -> None:
    if is_external_name(spec):
        return
    defaults(spec, internalTrafficPolicy="Cluster")
    if is_reached_from_outside(spec):
        defaults(spec, externalTrafficPolicy="Cluster")
    if spec.get("type") == "LoadBalancer":
        defaults(spec, allocateLoadBalancerNodePorts=True)


def carry(old: Json, new: Json) -> None:
    """Drop fields of an earlier type that its author did not change, and keep what the server had given."""
    before, spec = spec_of(old), spec_of(new)
    if not spec:
        return
    # Its defaults come later.
    now = {**spec, "type": spec.get("type") or "ClusterIP"}
    for names, applies in _FIELDS_OF_TYPES:
        if applies(before) and not applies(now):
            for name in names:
                _drop_unchanged(before, spec, name)
    if needs_health_check_port(before) and needs_health_check_port(now):
        defaults(spec, healthCheckNodePort=before.get("healthCheckNodePort"))
    _carry_node_ports(before, spec, now)


def _carry_node_ports(before: Json, spec: Json, now: Json) -> None:
    if before.get("type") not in OUTSIDE:
        return
    if now["type"] not in OUTSIDE and _node_ports(before) == _node_ports(spec):
        for port in sequence(spec, "ports"):
            _drop(port, "nodePort")
    elif needs_node_ports(now):
        _keep_node_ports(before, spec)


def _drop(fields: Json, *names: str) -> None:
    for name in names:
        fields.pop(name, None)


def _drop_unchanged(before: Json, spec: Json, name: str) -> None:
    if spec.get(name) == before.get(name):
        spec.pop(name, None)


def _node_ports(spec: Json) -> list[int]:
    return [port.get("nodePort") or 0 for port in sequence(spec, "ports")]


def _keep_node_ports(before: Json, spec: Json) -> None:
    """Give ports that lost their node port the one that a port of this name had."""
    taken = set(_node_ports(spec))
    known = {port.get("name") or "": port.get("nodePort") for port in sequence(before, "ports")}
    for port in sequence(spec, "ports"):
        number = known.get(port.get("name") or "")
        if not port.get("nodePort") and number and number not in taken:
            port["nodePort"] = number
            taken.add(number)


# ---- faults


def external_name_causes(spec: Json) -> list[Cause]:
    causes = []
    if sequence(spec, "clusterIPs"):
        text = "may not be set for ExternalName services"
        causes.append(forbidden_field("spec.clusterIPs", text))
    for name in _FAMILY:
        if spec.get(name) not in (None, []):
            causes.append(forbidden_field(f"spec.{name}", "may not be set for ExternalName services"))
    name = (spec.get("externalName") or "").removesuffix(".")
    return causes + (name_causes(name, "spec.externalName") if name else [required("spec.externalName")])


def type_causes(spec: Json) -> list[Cause]:
    """Return what is wrong with the fields of a type that has an address."""
    causes: list[Cause] = []
    if spec["type"] in OUTSIDE and spec.get("clusterIP") == "None":
        causes.append(
            invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {spec['type']} services")
        )
    if spec["type"] != "LoadBalancer":
        if spec.get("loadBalancerClass"):
            text = "may only be used when `type` is 'LoadBalancer'"
            causes.append(forbidden_field("spec.loadBalancerClass", text))
        if spec.get("allocateLoadBalancerNodePorts") is not None:
            text = "may only be used when `type` is 'LoadBalancer'"
            causes.append(forbidden_field("spec.allocateLoadBalancerNodePorts", text))
    if spec.get("healthCheckNodePort") and not needs_health_check_port(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], text))
    return causes


def node_port_causes(spec: Json) -> list[Cause]:
    """Return node ports of a type without them, and those that two ports of one protocol share."""
    causes: list[Cause] = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(sequence(spec, "ports")):
        number, path = port.get("nodePort") or 0, f"spec.ports[{index}].nodePort"
        if not number:
            continue
        if spec["type"] == "ClusterIP":
            text = "may not be used when `type` is 'ClusterIP'"
            causes.append(forbidden_field(path, text))
        key = str(port.get("protocol")), number
        if key in seen:
            causes.append(Cause(path, f"Duplicate value: {number}", "FieldValueDuplicate"))
        seen.add(key)
    return causes
