"""Fields of a Service by its type: their defaults, what an update drops or keeps, and their faults.

`services.py` asks it; node ports and addresses are given out by `admission/node_ports.py` and `admission/server.py`.
"""

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_spec
from steelyard_local_kubernetes.apiserver.errors import Cause, forbidden_field, invalid, missing_value
from steelyard_local_kubernetes.apiserver.names import key_causes, name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults
from steelyard_local_kubernetes.apiserver.rules.fields import port_number
from steelyard_local_kubernetes.apiserver.rules.table import choice

TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
OUTSIDE = ("NodePort", "LoadBalancer")
_FAMILY = ("ipFamilies", "ipFamilyPolicy")
_CLASS = "loadBalancerClass"
_BALANCED_ONLY = "may only be used when `type` is 'LoadBalancer'"


def is_external_name(spec: Json) -> bool:
    return spec.get("type") == "ExternalName"


def needs_node_ports(spec: Json) -> bool:
    """Return whether each port without a node port gets one."""
    balanced = is_balanced(spec) and spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort" or balanced


def is_reached_from_outside(spec: Json) -> bool:
    return spec.get("type") in OUTSIDE or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


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
    if is_reached_from_outside(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("type") == "LoadBalancer":
        defaults(spec, allocateLoadBalancerNodePorts=True)


def carry(old: Json, new: Json) -> None:
    """Drop fields of an earlier type that its author did not change, and keep what the server had given."""
    before, spec = read_spec(old), read_spec(new)
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


def headless_causes(spec: Json, path: str) -> list[Cause]:
    if spec["type"] not in OUTSIDE or spec.get("clusterIP") != "None":
        return []
    text = f"may not be set to 'None' for {spec['type']} services"
    return [invalid(f"{path}.clusterIPs[0]", "None", text)]


def external_name_causes(spec: Json, path: str) -> list[Cause]:
    if not is_external_name(spec):
        return []
    text = "may not be set for ExternalName services"
    fields = ("clusterIPs", *_FAMILY)
    causes = [forbidden_field(f"{path}.{name}", text) for name in fields if spec.get(name) not in (None, [])]
    name = (spec.get("externalName") or "").removesuffix(".")
    where = f"{path}.externalName"
    return causes + (name_causes(name, where) if name else [missing_value(where)])


def node_port_causes(spec: Json, path: str) -> list[Cause]:
    """Return node ports of a type without them, and those that two ports of one protocol share."""
    needless: list[Cause] = []
    shared: list[Cause] = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(sequence(spec, "ports")):
        number, where = port.get("nodePort") or 0, f"{path}.ports[{index}].nodePort"
        if not number:
            continue
        if spec["type"] == "ClusterIP":
            needless.append(forbidden_field(where, "may not be used when `type` is 'ClusterIP'"))
        key = str(port.get("protocol")), number
        if key in seen:
            shared.append(Cause(where, f"Duplicate value: {number}", "FieldValueDuplicate"))
        seen.add(key)
    return needless + shared


def class_change_causes(spec: Json, before: Json) -> list[Cause]:
    """Faults of a balancer's class in a change; a real server names them here and at the fields' own place."""
    if not before:
        return []
    causes = []
    if is_balanced(spec) and is_balanced(before) and spec.get(_CLASS) != before.get(_CLASS):
        causes.append(invalid(f"spec.{_CLASS}", spec.get(_CLASS), "may not change once set"))
    return causes + _class_causes(spec, "spec")


def balancer_causes(spec: Json, path: str) -> list[Cause]:
    causes = []
    if spec.get("allocateLoadBalancerNodePorts") is not None and not is_balanced(spec):
        causes.append(forbidden_field(f"{path}.allocateLoadBalancerNodePorts", _BALANCED_ONLY))
    return causes + _class_causes(spec, path)


def _class_causes(spec: Json, path: str) -> list[Cause]:
    name, where = spec.get(_CLASS), f"{path}.{_CLASS}"
    if name is None:
        return []
    return key_causes(name, where) if is_balanced(spec) else [forbidden_field(where, _BALANCED_ONLY)]


def outside_policy_causes(spec: Json, path: str) -> list[Cause]:
    """Faults of the fields for traffic from outside."""
    policy, causes = spec.get("externalTrafficPolicy"), []
    if is_reached_from_outside(spec):
        causes += choice("externalTrafficPolicy", "Cluster", "Local")(spec, path)
    elif policy:
        text = "may only be set for externally-accessible services"
        causes.append(invalid(f"{path}.externalTrafficPolicy", policy, text))
    number, where = spec.get("healthCheckNodePort"), f"{path}.healthCheckNodePort"
    if number and needs_health_check_port(spec):
        causes += port_number(number, where)
    elif number:
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid(where, number, text))
    return causes
