"""Strategic merge of a Pod's template: lists of containers, volumes and the like are merged by their keys.

As `kubectl patch` does with a Pod; a list without a key is replaced, null removes a field, and `$patch` works.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.clusters.errors import Fault
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.strategic import Unmergeable, strategic_merge
from steelyard_schema.unknown_fields import pod_template_schema, unknown_fields

KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
}
"""Keys of the lists of a Pod's template, as Kubernetes' schema has them."""
_PATCH = "$patch"
_INDEX = re.compile(r"\[([0-9]+)\]")


def faults(patch: Json, path: str) -> Iterator[Fault]:
    """Yield the faults of a patch of a Pod's template: fields that Pods do not have, and items without their key."""
    unfit = [*_unfit(patch, path)]
    yield from unfit
    if not unfit:
        try:
            merge({}, patch)
        except (Unmergeable, TypeError) as error:
            yield Fault(path, str(error))


def _unfit(patch: Json, path: str) -> Iterator[Fault]:
    spec = patch.get("spec")
    if spec is not None and not isinstance(spec, dict):
        yield Fault(f"{path}.spec", "should be an object")
        return
    for unknown in unknown_fields(pod_template_schema(), patch, path):
        yield Fault(_INDEX.sub(r".\1", unknown.path), unknown.message)
    for field in ("containers", "initContainers"):
        containers = (spec or {}).get(field) or []
        for number, container in enumerate(containers if isinstance(containers, list) else [containers]):
            where = f"{path}.spec.{field}.{number}"
            if not isinstance(container, dict):
                yield Fault(where, "should be an object")
            elif "name" not in container and _PATCH not in container:
                yield Fault(f"{where}.name", "is required: it says which container is meant")


def merge(base: Json, patch: Json) -> Json:
    """Return the template with the patch in it; neither is changed. The base's containers stay the first.

    KubeRay takes the first container for Ray's. Raises Unmergeable and TypeError, which `faults` finds before.
    """
    result = strategic_merge(_Place(), base, patch)
    if "containers" in mapping(result, "spec"):
        own = [container["name"] for container in sequence(mapping(base, "spec"), "containers")]
        rank = {name: at for at, name in enumerate(own)}
        containers = sorted(result["spec"]["containers"], key=lambda one: rank.get(one.get("name"), len(own)))
        result = {**result, "spec": {**result["spec"], "containers": containers}}
    return result


@dataclass(frozen=True)
class _Place:
    """A place of a Pod's template: the names of its lists say by which key they are merged."""

    merge_key: str | None = None

    def below(self, name: str) -> "_Place":
        return _Place(KEYS.get(name))

    def element(self) -> "_Place":
        return _Place()
