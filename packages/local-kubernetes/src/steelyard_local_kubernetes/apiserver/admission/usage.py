"""Use of a namespace's quota by an object, and the choice of quotas that count it.

Pure functions by the rules of a real server's evaluators; `quota.py` asks for them.
"""

from collections.abc import Callable, Iterable, Sequence

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.admission.requests import pod_amounts
from steelyard_local_kubernetes.apiserver.amounts import Amounts, amount, amounts
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.rules.common import labels_match

PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
IGNORED = frozenset(["events", "events.events.k8s.io"])
_COUNTED = frozenset(["configmaps", "resourcequotas", "replicationcontrollers", "secrets"])
_POD_NAMES = frozenset(
    ["count/pods", "pods"]
    + [
        f"{prefix}{name}"
        for prefix in ("", "requests.", "limits.")
        for name in ("cpu", "memory", "ephemeral-storage")
    ]
)
_SERVICE_NAMES = frozenset(["count/services", "services", "services.nodeports", "services.loadbalancers"])
_CLAIM_NAMES = frozenset(["count/persistentvolumeclaims", CLAIMS, "requests.storage"])
_MUST_SAY = frozenset(["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"])
_OF_CLASS = ".storageclass.storage.k8s.io/"
_ONE, _NOTHING = amount(1), amount(0)


def usage_names(bucket: str, names: Iterable[str]) -> list[str]:
    """The resources among a quota's that objects of this kind use."""
    match bucket:
        case "pods":
            return [name for name in names if name in _POD_NAMES or _is_of_pods(name)]
        case "services":
            return [name for name in names if name in _SERVICE_NAMES]
        case "persistentvolumeclaims":
            return [name for name in names if name in _CLAIM_NAMES or _is_of_class(name)]
    own = {f"count/{bucket}"} | ({bucket} & _COUNTED)
    return [name for name in names if name in own]


def usage_buckets(names: Iterable[str]) -> set[str]:
    """The kinds whose objects use these resources."""
    buckets = set()
    for name in names:
        if name.startswith("count/"):
            buckets.add(name.removeprefix("count/"))
        else:
            buckets |= {bucket for bucket in (PODS, SERVICES, CLAIMS) if usage_names(bucket, [name])}
            buckets |= {name} & _COUNTED
    return buckets - IGNORED


def _is_of_pods(name: str) -> bool:
    if name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


def _is_of_class(name: str) -> bool:
    return name.endswith((f"{_OF_CLASS}{CLAIMS}", f"{_OF_CLASS}requests.storage"))


def usage(bucket: str, obj: Json) -> Amounts:
    match bucket:
        case "pods":
            return _pod_usage(obj)
        case "services":
            return _service_usage(obj)
        case "persistentvolumeclaims":
            return _claim_usage(obj)
    return dict.fromkeys([f"count/{bucket}", *({bucket} & _COUNTED)], _ONE)


def _pod_usage(pod: Json) -> Amounts:
    used: Amounts = {"count/pods": _ONE}
    # A Pod that has ended uses nothing any more, but it is still an object.
    if find_field(pod, "status", "phase") in ("Succeeded", "Failed"):
        return used
    spec = pod["spec"]
    return used | {"pods": _ONE} | _computing(pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def _computing(requests: Amounts, limits: Amounts) -> Amounts:
    used: Amounts = {}
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in requests:
            used |= {name: requests[name], f"requests.{name}": requests[name]}
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, value in requests.items():
        if name.startswith("hugepages-"):
            used[name] = value
        if name.startswith("hugepages-") or ("/" in name and "kubernetes.io/" not in name):
            used[f"requests.{name}"] = value
    return used


def _service_usage(service: Json) -> Amounts:
    spec = service["spec"]
    kind, ports = spec.get("type"), sequence(spec, "ports")
    count = 0
    if kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    ):
        count = len(ports)
    elif kind == "LoadBalancer":
        count = sum(1 for port in ports if port.get("nodePort"))
    return {
        "count/services": _ONE,
        "services": _ONE,
        "services.nodeports": amount(count),
        "services.loadbalancers": _ONE if kind == "LoadBalancer" else _NOTHING,
    }


def _claim_usage(claim: Json) -> Amounts:
    used: Amounts = {"count/persistentvolumeclaims": _ONE, CLAIMS: _ONE}
    notes = find_field(claim, "metadata", "annotations") or {}
    name = notes.get("volume.beta.kubernetes.io/storage-class") or claim["spec"].get("storageClassName")
    storage = amounts(mapping(claim["spec"], "resources", "requests")).get("storage")
    if name:
        used[f"{name}{_OF_CLASS}{CLAIMS}"] = _ONE
    if storage is not None:
        used["requests.storage"] = storage
        if name:
            used[f"{name}{_OF_CLASS}requests.storage"] = storage
    return used


# ---- which quotas count it


def scope_selectors(quota: Json) -> list[Json]:
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in sequence(quota["spec"], "scopes")]
    return scopes + sequence(quota["spec"], "scopeSelector", "matchExpressions")


def in_scope(quota: Json, bucket: str, obj: Json) -> bool:
    matches = _SCOPED.get(bucket)
    selectors = scope_selectors(quota)
    if matches is None:
        # A scope speaks of Pods or of claims: nothing else is in one.
        return not selectors
    return all(matches(selector, obj) for selector in selectors)


def _pod_matches(selector: Json, pod: Json) -> bool:
    spec = pod["spec"]
    bounded = (spec.get("activeDeadlineSeconds") or -1) >= 0
    match selector["scopeName"]:
        case "Terminating":
            return bounded
        case "NotTerminating":
            return not bounded
        case "BestEffort":
            return bool(find_field(pod, "status", "qosClass") == "BestEffort")
        case "NotBestEffort":
            return bool(find_field(pod, "status", "qosClass") != "BestEffort")
        case "PriorityClass":
            return _named(selector, "PriorityClass", [spec.get("priorityClassName") or ""])
        case "CrossNamespacePodAffinity":
            return any(_crosses(term) for term in _affinity_terms(spec))
    return False


def _claim_matches(selector: Json, claim: Json) -> bool:
    if selector["scopeName"] != "VolumeAttributesClass":
        return False
    names = [
        claim["spec"].get("volumeAttributesClassName"),
        find_field(claim, "status", "currentVolumeAttributesClassName"),
        find_field(claim, "status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
    ]
    return _named(selector, "VolumeAttributesClass", [name for name in names if name] or [""])


def _named(selector: Json, scope: str, names: Sequence[str]) -> bool:
    if selector["operator"] == "Exists":
        return any(names)
    expression = {**selector, "key": scope}
    return any(
        labels_match({"matchExpressions": [expression]}, {scope: name} if name else {}) for name in names
    )


def _affinity_terms(spec: Json) -> list[Json]:
    terms: list[Json] = []
    for name in ("podAffinity", "podAntiAffinity"):
        affinity = mapping(spec, "affinity", name)
        terms += sequence(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
        preferred = sequence(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [mapping(term, "podAffinityTerm") for term in preferred]
    return terms


def _crosses(term: Json) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


_SCOPED: dict[str, Callable[[Json, Json], bool]] = {PODS: _pod_matches, CLAIMS: _claim_matches}


# ---- what has to be said


def unsaid(pod: Json, names: Iterable[str]) -> str:
    """Return the requests that a quota on these resources misses in a Pod; empty where it misses none."""
    # What is said of the Pod as a whole holds for all its containers.
    if pod["spec"].get("resources"):
        return ""
    required = _MUST_SAY & set(names)
    missing: dict[str, set[str]] = {}
    for field in ("containers", "initContainers"):
        for container in sequence(pod["spec"], field):
            requests, limits = (
                amounts(mapping(container, "resources", kind)) for kind in ("requests", "limits")
            )
            for name in required - set(_computing(requests, limits)):
                missing.setdefault(name, set()).add(container.get("name") or "")
    if not missing:
        return ""
    words = (f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {'; '.join(words)}"


def growth(new: Amounts, old: Amounts) -> Amounts:
    """Return the additional use of an update; what it uses less is given back by the controller."""
    result = {}
    for name, value in new.items():
        more = value - old[name] if name in old else value
        if more.number > 0:
            result[name] = more
    return result
