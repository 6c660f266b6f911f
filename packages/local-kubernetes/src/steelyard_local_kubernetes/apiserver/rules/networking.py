"""Ingresses, network policies and the older Endpoints."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, missing_value
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.rules.common import defaults
from steelyard_local_kubernetes.apiserver.rules.fields import ip_causes, port_number


def _prepare_ingress(obj: Json) -> None:
    obj["status"] = {"loadBalancer": {}}


def _default_ingress_class(obj: Json) -> None:
    if parameters := mapping(obj.setdefault("spec", {}), "parameters"):
        defaults(parameters, scope="Cluster")


def _default_policy(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(spec, podSelector={})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*sequence(spec, "ingress"), *sequence(spec, "egress")):
        for port in sequence(rule, "ports"):
            defaults(port, protocol="TCP")


def _default_endpoints(obj: Json) -> None:
    for subset in sequence(obj, "subsets"):
        for port in sequence(subset, "ports"):
            defaults(port, protocol="TCP")


INGRESS = Rules(prepare=_prepare_ingress, default=lambda obj: defaults(obj, spec={}))
INGRESS_CLASS = Rules(default=_default_ingress_class)
POLICY = Rules(default=_default_policy)


def _check_endpoints(obj: Json, old: Json | None) -> list[Cause]:
    causes = []
    for index, subset in enumerate(sequence(obj, "subsets")):
        ports = sequence(subset, "ports")
        for number, port in enumerate(ports):
            where = f"subsets[{index}].ports[{number}]"
            if len(ports) > 1 and not port.get("name"):
                causes.append(missing_value(f"{where}.name"))
            causes += port_number(port.get("port"), f"{where}.port")
        for number, address in enumerate(sequence(subset, "addresses")):
            causes += ip_causes(address.get("ip") or "", f"subsets[{index}].addresses[{number}].ip")
    return causes


ENDPOINTS = Rules(default=_default_endpoints, check=_check_endpoints)
