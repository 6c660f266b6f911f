"""Kinds that are stored for those who make and read them: signing requests, runtimes, flows, devices, networks."""

from steelyard.local.apiserver.errors import Cause, required
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.rules.common import defaults, immutable
from steelyard.types import Json, mapping


def _prepare_status(obj: Json) -> None:
    obj["status"] = {}


def _check_runtime(obj: Json, old: Json | None) -> list[Cause]:
    causes = [] if obj.get("handler") else [required("handler")]
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
        response = limited["limitResponse"]
        if response.get("type") == "Queue":
            defaults(response, queuing={})
            defaults(response["queuing"], queues=64, handSize=8, queueLengthLimit=50)


SIGNING_REQUEST = Rules(prepare=_prepare_status)
RUNTIME_CLASS = Rules(check=_check_runtime)
API_SERVICE = Rules(prepare=_prepare_status, default=lambda obj: defaults(obj, spec={}))
FLOW_SCHEMA = Rules(prepare=_prepare_status, default=_default_flow)
PRIORITY_LEVEL = Rules(prepare=_prepare_status, default=_default_level)
DEVICE_CLAIM = Rules(prepare=_prepare_status)
SERVICE_NETWORK = Rules(prepare=_prepare_status)
