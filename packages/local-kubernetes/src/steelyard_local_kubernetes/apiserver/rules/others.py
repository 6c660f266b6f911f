"""Kinds that are stored for those who make and read them: signing requests, runtimes, flows, devices, networks."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, value_text
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.names import name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults, immutable


def _prepare_status(obj: Json) -> None:
    obj["status"] = {}


def _check_runtime(obj: Json, old: Json | None) -> list[Cause]:
    causes = name_causes(obj.get("handler") or "", "handler", "label")
    return causes + immutable(obj, old, "handler")


def _default_flow(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def _default_level(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    exempt = mapping(spec, "exempt")
    if spec.get("type") == "Exempt":
        spec["exempt"] = exempt
        defaults(exempt, nominalConcurrencyShares=0, lendablePercent=0)
    if limited := mapping(spec, "limited"):
        defaults(limited, nominalConcurrencyShares=30, lendablePercent=0, limitResponse={})
        if queuing := limited["limitResponse"].get("queuing"):
            defaults(queuing, queues=64, handSize=8, queueLengthLimit=50)


def _check_level(obj: Json, old: Json | None) -> list[Cause]:
    response = mapping(mapping(obj["spec"], "limited"), "limitResponse")
    if response.get("type") == "Queue" and not response.get("queuing"):
        text = "must not be empty if limited.limitResponse.type is Limited"
        return [missing_value("spec.limited.limitResponse.queuing", text)]
    return []


def _prepare_api_service(obj: Json) -> None:
    obj["status"] = {}
    if not mapping(obj, "spec").get("service"):
        # Served by this server itself.
        condition = {"type": "Available", "status": "True", "reason": "Local"}
        condition["lastTransitionTime"] = obj["metadata"]["creationTimestamp"]
        condition["message"] = "Local APIServices are always available"
        obj["status"]["conditions"] = [condition]


def _default_api_service(obj: Json) -> None:
    if service := mapping(obj.setdefault("spec", {}), "service"):
        defaults(service, port=443)


def _check_api_service(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    group, version = spec.get("group") or "", spec.get("version") or ""
    named, name = f"{version}.{group}", obj["metadata"]["name"]
    causes = []
    if name != named:
        text = f'must be `spec.version+"."+spec.group`: {value_text(named)}'
        causes.append(invalid("metadata.name", name, text))
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        causes.append(missing_value("spec.group", text))
    causes += name_causes(version, "spec.version", "service")
    for field, most in (("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)):
        value = spec.get(field) or 0
        if not 0 < value <= most:
            causes.append(invalid(f"spec.{field}", value, f"must be positive and less than {most}"))
    return causes


def _default_requests(spec: Json) -> None:
    for request in sequence(mapping(spec, "devices"), "requests"):
        for choice in (mapping(request, "exactly"), *sequence(request, "firstAvailable")):
            if choice:
                defaults(choice, allocationMode="ExactCount")
                if choice["allocationMode"] == "ExactCount":
                    defaults(choice, count=1)


SIGNING_REQUEST = Rules(prepare=_prepare_status)
RUNTIME_CLASS = Rules(check=_check_runtime)
API_SERVICE = Rules(_prepare_api_service, _default_api_service, _check_api_service)
FLOW_SCHEMA = Rules(prepare=_prepare_status, default=_default_flow)
PRIORITY_LEVEL = Rules(_prepare_status, _default_level, _check_level)
DEVICE_CLAIM = Rules(_prepare_status, lambda obj: _default_requests(mapping(obj, "spec")))
DEVICE_TEMPLATE = Rules(default=lambda obj: _default_requests(mapping(mapping(obj, "spec"), "spec")))
SERVICE_NETWORK = Rules(prepare=_prepare_status)
