"""Strategic merge of a Pod's template: lists of containers, volumes and the like are merged by their keys.

As `kubectl patch` does with a Pod; a list without a key is replaced, null removes a field, and `$patch` works.
"""

from collections.abc import Iterator
from typing import Any

from steelyard.clusters.errors import Fault
from steelyard.types import Json

KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
}
"""Keys of the lists of a Pod's template, as Kubernetes' schema has them."""
POD_FIELDS = frozenset({
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
    "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers",
    "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "os",
    "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources",
    "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "securityContext", "serviceAccount",
    "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds",
    "tolerations", "topologySpreadConstraints", "volumes",
})  # fmt: skip
CONTAINER_FIELDS = frozenset({
    "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports",
    "readinessProbe", "resizePolicy", "resources", "restartPolicy", "restartPolicyRules", "securityContext",
    "startupProbe", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty",
    "volumeDevices", "volumeMounts", "workingDir",
})  # fmt: skip
_PATCH = "$patch"


def faults(patch: Json, path: str) -> Iterator[Fault]:
    """Yield the faults of a patch of a Pod's template: names of fields that a Pod or a container does not have."""
    for name in patch:
        if name not in ("metadata", "spec"):
            yield Fault(f"{path}.{name}", "is not a field of a Pod's template, which has metadata and spec")
    spec = patch.get("spec")
    if spec is not None and not isinstance(spec, dict):
        yield Fault(f"{path}.spec", "should be an object")
        return
    for name in sorted(set(spec or ()) - POD_FIELDS - {_PATCH}):
        yield Fault(f"{path}.spec.{name}", "is not a field of a Pod")
    for field in ("containers", "initContainers"):
        containers = (spec or {}).get(field) or []
        for number, container in enumerate(containers if isinstance(containers, list) else [containers]):
            where = f"{path}.spec.{field}.{number}"
            if not isinstance(container, dict):
                yield Fault(where, "should be an object")
                continue
            if "name" not in container and _PATCH not in container:
                yield Fault(f"{where}.name", "is required: it says which container is meant")
            for name in sorted(set(container) - CONTAINER_FIELDS - {_PATCH}):
                yield Fault(f"{where}.{name}", "is not a field of a container")


def merged(base: Json, patch: Json) -> Json:
    """Return the object with the patch in it; neither is changed."""
    if patch.get(_PATCH) == "replace":
        return {name: value for name, value in patch.items() if name != _PATCH}
    result = dict(base)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            old = result.get(name)
            result[name] = merged(old if isinstance(old, dict) else {}, value)
        elif isinstance(value, list) and name in KEYS:
            result[name] = _items(result.get(name) or [], value, KEYS[name][0])
        elif name != _PATCH:
            result[name] = value
    return result


def _items(old: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(isinstance(item, dict) and item == {_PATCH: "replace"} for item in patch):
        return [item for item in patch if item != {_PATCH: "replace"}]
    items = {_key(item, key): item for item in old}
    for item in patch:
        name = _key(item, key)
        if isinstance(item, dict) and item.get(_PATCH) == "delete":
            items.pop(name, None)
        elif isinstance(item, dict) and isinstance(items.get(name), dict):
            items[name] = merged(items[name], item)
        else:
            items[name] = item
    return list(items.values())


def _key(item: Any, key: str) -> str:
    return str(item.get(key)) if isinstance(item, dict) else repr(item)
