"""Pods: what a Pod's spec is completed with, and what is refused in it. Workloads use both for their templates."""

from steelyard.kube.objects import spec_of, status_of
from steelyard.kube.pods import containers_of
from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required, unsupported
from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.names import key_causes, labels_causes, name_causes
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.containers import (
    complete_container,
    container_causes,
    init_container_causes,
)
from steelyard.local.apiserver.rules.fields import (
    MAX_INT32,
    NOT_NEGATIVE,
    between,
    duplicate,
    ip_causes,
    is_ip,
    one_of,
)
from steelyard.local.apiserver.rules.volumes import complete_volume, volume_causes
from steelyard.types import Json, mapping, sequence

RESTART_POLICIES = ["Always", "OnFailure", "Never"]
_DNS_POLICIES = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]
_NAMES = {
    "nodeName": "subdomain",
    "hostname": "label",
    "subdomain": "label",
    "serviceAccountName": "subdomain",
}
_NAMES |= {"runtimeClassName": "subdomain", "schedulerName": "subdomain"}
_MAY_CHANGE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")
_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def complete_pod_spec(spec: Json) -> None:
    """The defaults of a Pod's spec, in a template too."""
    spec["restartPolicy"] = spec.get("restartPolicy") or "Always"
    defaults(
        spec,
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        # Two names of one field, of which the second is the older: clients read either.
        spec |= {"serviceAccountName": account, "serviceAccount": account}
    for container in containers_of(spec):
        complete_container(container)
    for volume in sequence(spec, "volumes"):
        complete_volume(volume)


def pod_spec_causes(spec: Json, path: str) -> list[Cause]:
    causes = volume_causes(spec, path)
    volumes = {volume.get("name") or "" for volume in sequence(spec, "volumes")}
    seen: set[str] = set()
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    grace = spec.get("terminationGracePeriodSeconds") or 0
    for field in ("initContainers", "containers"):
        for index, container in enumerate(sequence(spec, field)):
            where = f"{path}.{field}[{index}]"
            causes += container_causes(container, where, volumes, grace)
            causes += init_container_causes(container, where) if field == "initContainers" else []
            if (name := container.get("name") or "") in seen:
                causes.append(duplicate(f"{where}.name", name))
            seen.add(name)
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        causes.append(unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES))
    return causes + _scalar_causes(spec, path)


def _scalar_causes(spec: Json, path: str) -> list[Cause]:
    """Texts and numbers of the spec itself."""
    causes = between(spec.get("activeDeadlineSeconds"), f"{path}.activeDeadlineSeconds", 1, MAX_INT32)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, NOT_NEGATIVE))
    causes += one_of(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES)
    for name, kind in _NAMES.items():
        if spec.get(name):
            causes += name_causes(spec[name], f"{path}.{name}", kind)
    causes += labels_causes(mapping(spec, "nodeSelector"), f"{path}.nodeSelector")
    for index, alias in enumerate(sequence(spec, "hostAliases")):
        where = f"{path}.hostAliases[{index}]"
        causes += ip_causes(alias.get("ip") or "", f"{where}.ip")
        for number, host in enumerate(sequence(alias, "hostnames")):
            causes += name_causes(host, f"{where}.hostnames[{number}]")
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        where = f"{path}.securityContext.{name}"
        causes += between(mapping(spec, "securityContext").get(name), where, 0, MAX_INT32)
    return causes + _toleration_causes(spec, path)


def _toleration_causes(spec: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, toleration in enumerate(sequence(spec, "tolerations")):
        where = f"{path}.tolerations[{index}]"
        key, operator, effect = (toleration.get(name) or "" for name in ("key", "operator", "effect"))
        causes += key_causes(key, f"{where}.key") if key else []
        if not key and operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid(f"{where}.operator", operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid(f"{where}.effect", effect, text))
        causes += one_of(operator or None, f"{where}.operator", ["Equal", "Exists"])
        causes += one_of(effect or None, f"{where}.effect", ["NoSchedule", "PreferNoSchedule", "NoExecute"])
    return causes


def _prepare(pod: Json) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": _quality(spec_of(pod))}


def _quality(spec: Json) -> str:
    """The class of service by requests and limits."""
    containers = containers_of(spec)
    resources = [mapping(container, "resources") for container in containers]
    if not any((amounts.get("requests") or amounts.get("limits")) for amounts in resources):
        return "BestEffort"
    for amounts in resources:
        limits, requests = mapping(amounts, "limits"), mapping(amounts, "requests")
        # Guaranteed takes limits of both in every container, and no request below them.
        if not {"cpu", "memory"} <= limits.keys() or any(requests.get(k, v) != v for k, v in limits.items()):
            return "Burstable"
    return "Guaranteed"


def _default(pod: Json) -> None:
    spec = pod.setdefault("spec", {})
    complete_pod_spec(spec)
    defaults(spec, serviceAccountName="default", serviceAccount="default", enableServiceLinks=True)
    for container in containers_of(spec):
        resources = container["resources"]
        # Kubernetes' rule: what is limited is requested as much, unless it is requested otherwise.
        for name, limit in mapping(resources, "limits").items():
            resources.setdefault("requests", {}).setdefault(name, limit)


def _check(pod: Json, old: Json | None) -> list[Cause]:
    if old is None:
        return pod_spec_causes(pod["spec"], "spec")
    before, after = _frozen(old["spec"]), _frozen(pod["spec"])
    if not before.get("nodeName"):
        # The scheduler's word; a real server takes it from `binding` alone.
        before.pop("nodeName", None)
        after.pop("nodeName", None)
    if before != after:
        return [forbidden_field("spec", _FORBIDDEN)]
    return _changed_causes(pod["spec"], old["spec"])


def _changed_causes(spec: Json, before: Json) -> list[Cause]:
    """Checks the fields of a Pod that may change; a value that was stored before its rule existed may stay."""
    causes = []
    for cause in _scalar_causes(spec, "spec"):
        if cause not in _scalar_causes(before, "spec"):
            causes.append(cause)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec, field)):
            if not container.get("image"):
                causes.append(required(f"spec.{field}[{index}].image"))
    return causes


def _check_status(pod: Json, old: Json | None) -> list[Cause]:
    """Addresses become lines of hosts files and targets of connections."""
    status = status_of(pod)
    addresses = [entry.get("ip") or "" for entry in sequence(status, "podIPs")]
    if status.get("podIP") and not addresses:
        addresses = [status["podIP"]]
    causes: list[Cause] = []
    for index, address in enumerate(addresses):
        causes += ip_causes(address, f"status.podIPs[{index}].ip")
    if status.get("podIP") and not is_ip(status["podIP"]):
        causes += ip_causes(status["podIP"], "status.podIP")
    return causes


def _frozen(spec: Json) -> Json:
    """Return the part of a Pod's spec that never changes."""
    kept = {key: value for key, value in spec.items() if key not in _MAY_CHANGE}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{k: v for k, v in item.items() if k != "image"} for item in kept[field]]
    return kept


POD = Rules(prepare=_prepare, default=_default, check=_check, status_check=_check_status)
