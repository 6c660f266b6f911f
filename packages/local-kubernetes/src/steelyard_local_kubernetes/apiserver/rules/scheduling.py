"""Priority classes, which give Pods their priority."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.errors import Cause, forbidden_field, missing_value
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.rules.common import defaults, immutable
from steelyard_local_kubernetes.apiserver.rules.table import below, choice

HIGHEST = 1_000_000_000  # of those that users may make
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _default_class(obj: Json) -> None:
    defaults(obj, value=0, preemptionPolicy="PreemptLowerPriority")


def preemption_causes(obj: Json, path: str) -> list[Cause]:
    """Faults of the policy of a class or of a Pod, which may be absent, and not empty."""
    if obj.get("preemptionPolicy") == "":
        return [missing_value(below(path, "preemptionPolicy"))]
    return choice("preemptionPolicy", "PreemptLowerPriority", "Never")(obj, path)


def _check_class(obj: Json, old: Json | None) -> list[Cause]:
    name, value = obj["metadata"].get("name") or "", obj["value"]
    causes = []
    if name.startswith("system-") and SYSTEM_CLASSES.get(name) != value:
        text = "priority class names with 'system-' prefix are reserved for system use only. error: "
        text += f"{name} is not a known system priority class"
        causes.append(forbidden_field("metadata.name", text))
    elif value > HIGHEST and name not in SYSTEM_CLASSES:
        causes.append(
            forbidden_field("value", f"maximum allowed value of a user defined priority is {HIGHEST}")
        )
    if old is not None and value != old["value"]:
        causes.append(forbidden_field("value", "may not be changed in an update."))
    causes += preemption_causes(obj, "")
    return causes + immutable(obj, old, "preemptionPolicy")


PRIORITY_CLASS = Rules(default=_default_class, check=_check_class)
