"""Pods: what a Pod's spec is completed with, and what is refused in it. Workloads use both for their templates."""

from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.messages import Json
from steelyard.local.apiserver.names import name_causes
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.containers import complete_container, container_causes

RESTART_POLICIES = ["Always", "OnFailure", "Never"]
_MAY_CHANGE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")
_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def complete_pod_spec(spec: Json) -> None:
    """The defaults of a Pod's spec, in a template too."""
    defaults(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec |= {"serviceAccountName": account, "serviceAccount": account}
    for container in (spec.get("initContainers") or []) + (spec.get("containers") or []):
        complete_container(container)
    for volume in spec.get("volumes") or ():
        _complete_volume(volume)


def _complete_volume(volume: Json) -> None:
    if not any(volume.keys() - {"name"}):
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if source in volume:
            defaults(volume[source], defaultMode=0o644)
    if "hostPath" in volume:
        defaults(volume["hostPath"], type="")


def pod_spec_causes(spec: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    volumes: set[str] = set()
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        causes += _volume_causes(volume, f"{path}.volumes[{index}]", volumes)
    containers = spec.get("containers") or []
    if not containers:
        causes.append(required(f"{path}.containers"))
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            causes += container_causes(container, where, volumes)
            if container.get("name") in seen:
                text = f'Duplicate value: "{container["name"]}"'
                causes.append(Cause(f"{where}.name", text, "FieldValueDuplicate"))
            seen.add(container.get("name"))
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        causes.append(unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES))
    for field, least in (("activeDeadlineSeconds", 1), ("terminationGracePeriodSeconds", 0)):
        value = spec.get(field)
        if isinstance(value, int) and value < least:
            causes.append(invalid(f"{path}.{field}", value, f"must be greater than or equal to {least}"))
    return causes


def _volume_causes(volume: Json, path: str, seen: set[str]) -> list[Cause]:
    name = volume.get("name") or ""
    causes = name_causes(name, f"{path}.name", "label") if name else [required(f"{path}.name")]
    if name in seen:
        causes.append(Cause(f"{path}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate"))
    seen.add(name)
    if len(volume.keys() - {"name"}) > 1:
        causes.append(forbidden_field(path, "may not specify more than 1 volume type"))
    for source, field in (("configMap", "name"), ("secret", "secretName"), ("hostPath", "path")):
        if source in volume and not volume[source].get(field):
            causes.append(required(f"{path}.{source}.{field}"))
    return causes


def _prepare(pod: Json) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": _quality(pod.get("spec") or {})}


def _quality(spec: Json) -> str:
    """The class of service by requests and limits."""
    containers = (spec.get("initContainers") or []) + (spec.get("containers") or [])
    resources = [each.get("resources") or {} for each in containers]
    if not any((each.get("requests") or each.get("limits")) for each in resources):
        return "BestEffort"
    for each in resources:
        limits, requests = each.get("limits") or {}, each.get("requests") or {}
        if not {"cpu", "memory"} <= limits.keys() or any(requests.get(k, v) != v for k, v in limits.items()):
            return "Burstable"
    return "Guaranteed"


def _default(pod: Json) -> None:
    spec = pod.setdefault("spec", {})
    complete_pod_spec(spec)
    defaults(spec, serviceAccountName="default", serviceAccount="default", enableServiceLinks=True)
    for container in (spec.get("initContainers") or []) + (spec.get("containers") or []):
        resources = container["resources"]
        for name, limit in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)


def _check(pod: Json, old: Json | None) -> list[Cause]:
    if old is None:
        return pod_spec_causes(pod["spec"], "spec")
    before, after = _frozen(old["spec"]), _frozen(pod["spec"])
    if not before.get("nodeName"):
        # The scheduler's word; a real server takes it from `binding` alone.
        before.pop("nodeName", None)
        after.pop("nodeName", None)
    return [] if before == after else [forbidden_field("spec", _FORBIDDEN)]


def _frozen(spec: Json) -> Json:
    """What of a Pod's spec never changes."""
    kept = {key: value for key, value in spec.items() if key not in _MAY_CHANGE}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{k: v for k, v in each.items() if k != "image"} for each in kept[field]]
    return kept


POD = Rules(prepare=_prepare, default=_default, check=_check)
