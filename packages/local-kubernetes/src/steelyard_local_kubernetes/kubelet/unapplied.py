"""Fields of a Pod that this kubelet does not act on although its programs run: the Pod's events name them.

A cluster would act on each; failing the Pod would keep most published charts from running here. `worker.py` asks once.
"""

import os

from steelyard_common.types import Json, mapping
from steelyard_kube.pods import list_containers

_OF_THE_POD = ("fsGroup", "supplementalGroups", "sysctls")
_OF_BOTH = ("seccompProfile", "appArmorProfile", "seLinuxOptions", "procMount")
_OF_A_CONTAINER = ("readOnlyRootFilesystem", "capabilities", "privileged")


def list_unapplied(pod: Json, user: int | None = None, group: int | None = None) -> list[str]:
    """Return the fields, by their paths; `user` and `group` are those that programs have here."""
    spec = pod["spec"]
    user, group = os.getuid() if user is None else user, os.getgid() if group is None else group
    own = mapping(spec, "securityContext")
    fields = [f"spec.{name}" for name in ("runtimeClassName", "dnsConfig") if spec.get(name)]
    # "Default" is the machine's own resolver, which programs have anyway.
    if spec.get("dnsPolicy") == "None":
        fields.append("spec.dnsPolicy")
    fields += _set_fields(own, "spec.securityContext", (*_OF_THE_POD, *_OF_BOTH))
    fields += _identity(own, "spec.securityContext", user, group)
    for container in list_containers(spec):
        context, path = (
            mapping(container, "securityContext"),
            f"containers[{container['name']}].securityContext",
        )
        fields += _set_fields(context, path, (*_OF_A_CONTAINER, *_OF_BOTH)) + _identity(
            context, path, user, group
        )
    return fields


def _set_fields(context: Json, path: str, names: tuple[str, ...]) -> list[str]:
    return [f"{path}.{name}" for name in names if context.get(name)]


def _identity(context: Json, path: str, user: int, group: int) -> list[str]:
    """Users and groups other than the one who started `up`."""
    fields = [
        f"{path}.{name}"
        for name, present in (("runAsUser", user), ("runAsGroup", group))
        if context.get(name, present) != present
    ]
    if context.get("runAsNonRoot") and user == 0:
        fields.append(f"{path}.runAsNonRoot")
    return fields
