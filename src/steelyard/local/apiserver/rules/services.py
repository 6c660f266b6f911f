"""Services: of type ClusterIP only, with an address or headless. Addresses are given out by `admission/server.py`."""

import orjson

from steelyard.kube.objects import spec_of
from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.names import key_causes, labels_causes, name_causes
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.fields import duplicates, ip_causes, one_of, port_number
from steelyard.local.apiserver.rules.fields import port as any_port
from steelyard.types import Json, mapping, sequence


def _prepare(service: Json) -> None:
    service["status"] = {"loadBalancer": {}}


def _default(service: Json) -> None:
    spec = service.setdefault("spec", {})
    defaults(
        spec, type="ClusterIP", sessionAffinity="None", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack"
    )
    defaults(spec, internalTrafficPolicy="Cluster")
    for port in sequence(spec, "ports"):
        defaults(port, protocol="TCP")
        if not port.get("targetPort") and port.get("port"):
            port["targetPort"] = port["port"]
    if spec.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _check(service: Json, old: Json | None) -> list[Cause]:
    spec = service["spec"]
    if spec["type"] != "ClusterIP":
        return [unsupported("spec.type", spec["type"], ["ClusterIP"])]
    causes = labels_causes(mapping(spec, "selector"), "spec.selector")
    ports = sequence(spec, "ports")
    # A headless Service only gives names to its Pods, and forwards no port.
    if not ports and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    for index, port in enumerate(ports):
        causes += _port_causes(port, f"spec.ports[{index}]", several=len(ports) > 1)
    causes += duplicates((port.get("name") or "" for port in ports), "spec.ports", "name")
    causes += _twice(ports)
    causes += one_of(spec["sessionAffinity"], "spec.sessionAffinity", ["ClientIP", "None"])
    for index, address in enumerate(sequence(spec, "externalIPs")):
        causes += ip_causes(address, f"spec.externalIPs[{index}]")
    before = spec_of(old)
    # Clients have resolved the Service's name to this address, and go on calling it.
    if before.get("clusterIP") and spec.get("clusterIP") and spec["clusterIP"] != before["clusterIP"]:
        causes.append(invalid("spec.clusterIPs[0]", spec["clusterIPs"], "may not change once set"))
    return causes


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
    if port["protocol"] != "TCP":
        causes.append(unsupported(f"{path}.protocol", port["protocol"], ["TCP"]))
    causes += any_port(port.get("targetPort"), f"{path}.targetPort")
    if port.get("nodePort"):
        causes.append(forbidden_field(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
    if port.get("appProtocol") is not None:
        causes += key_causes(port["appProtocol"], f"{path}.appProtocol")
    return causes


SERVICE = Rules(prepare=_prepare, default=_default, check=_check)
