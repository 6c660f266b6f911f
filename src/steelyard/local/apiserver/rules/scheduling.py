"""Priority classes, which give Pods their priority, and autoscalers, which are kept and not acted on."""

from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules, field_of
from steelyard.local.apiserver.rules.common import defaults, immutable
from steelyard.local.apiserver.rules.table import causes_by, choice, items
from steelyard.types import Json

HIGHEST = 1_000_000_000  # of those that users may make
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def _default_class(obj: Json) -> None:
    defaults(obj, value=0, preemptionPolicy="PreemptLowerPriority")


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
    causes += choice("preemptionPolicy", "PreemptLowerPriority", "Never")(obj, "")
    return causes + immutable(obj, old, "preemptionPolicy")


def _default_autoscaler(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(spec, minReplicas=1)
    if not spec.get("metrics"):
        spec["metrics"] = [_CPU]
    if behavior := spec.get("behavior"):
        defaults(behavior, scaleUp={}, scaleDown={})
        percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
        pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
        defaults(behavior["scaleUp"], stabilizationWindowSeconds=0, selectPolicy="Max")
        defaults(behavior["scaleDown"], selectPolicy="Max")
        defaults(behavior["scaleUp"], policies=[pods, dict(percent)])
        defaults(behavior["scaleDown"], policies=[percent])


def _prepare_autoscaler(obj: Json) -> None:
    obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}


def _check_autoscaler(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    causes = []
    if least < 1:
        causes.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if most < least:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    for field in ("kind", "name"):
        if not field_of(spec, "scaleTargetRef", field):
            causes.append(required(f"spec.scaleTargetRef.{field}"))
    version = field_of(spec, "scaleTargetRef", "apiVersion") or ""
    if "/" not in version and (version, field_of(spec, "scaleTargetRef", "kind")) != (
        "v1",
        "ReplicationController",
    ):
        causes.append(invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group"))
    causes += causes_by(_METRICS, spec, "spec")
    # With no Pod there is nothing that could use a resource, or report a metric of its own.
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in spec["metrics"]):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        causes.append(forbidden_field("spec.metrics", text))
    return causes


def _metric_causes(metric: Json, path: str) -> list[Cause]:
    kind, where = metric.get("type") or "", f"{path}.type"
    causes = [] if kind else [required(where, "must specify a metric source type")]
    # A real server reports an unknown type twice.
    return causes if kind in _SOURCES else [*causes, *[unsupported(where, kind, _SOURCES)] * 2]


_SOURCES = ["ContainerResource", "External", "Object", "Pods", "Resource"]
_METRICS = (items("metrics", _metric_causes),)


PRIORITY_CLASS = Rules(default=_default_class, check=_check_class)
AUTOSCALER = Rules(prepare=_prepare_autoscaler, default=_default_autoscaler, check=_check_autoscaler)
