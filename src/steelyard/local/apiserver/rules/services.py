"""Services: of type ClusterIP only, with an address or headless. Addresses are given out by `admission.py`."""

from steelyard.local.apiserver.errors import Cause, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.messages import Json
from steelyard.local.apiserver.names import labels_causes, name_causes
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.containers import port_causes


def _prepare(service: Json) -> None:
    service["status"] = {"loadBalancer": {}}


def _default(service: Json) -> None:
    spec = service.setdefault("spec", {})
    defaults(
        spec, type="ClusterIP", sessionAffinity="None", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack"
    )
    defaults(spec, internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or ():
        defaults(port, protocol="TCP")
        if not port.get("targetPort") and port.get("port"):
            port["targetPort"] = port["port"]
    if spec.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _check(service: Json, old: Json | None) -> list[Cause]:
    spec = service["spec"]
    if spec["type"] != "ClusterIP":
        return [unsupported("spec.type", spec["type"], ["ClusterIP"])]
    causes = labels_causes(spec.get("selector") or {}, "spec.selector")
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    for index, port in enumerate(ports):
        causes += _port_causes(port, f"spec.ports[{index}]", several=len(ports) > 1)
    before = (old or {}).get("spec") or {}
    if before.get("clusterIP") and spec.get("clusterIP") and spec["clusterIP"] != before["clusterIP"]:
        causes.append(invalid("spec.clusterIPs[0]", spec["clusterIPs"], "may not change once set"))
    return causes


def _port_causes(port: Json, path: str, *, several: bool) -> list[Cause]:
    causes = port_causes(port.get("port") or 0, f"{path}.port") if port.get("port") else []
    if not port.get("port"):
        causes.append(invalid(f"{path}.port", port.get("port", 0), "must be between 1 and 65535, inclusive"))
    if several and not port.get("name"):
        causes.append(required(f"{path}.name"))
    if port.get("name"):
        causes += name_causes(port["name"], f"{path}.name", "label")
    if port["protocol"] != "TCP":
        causes.append(unsupported(f"{path}.protocol", port["protocol"], ["TCP"]))
    return causes


SERVICE = Rules(prepare=_prepare, default=_default, check=_check)
