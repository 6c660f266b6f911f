"""Containers of Pods and of templates: defaults and checks."""

import re

from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required, unsupported
from steelyard.local.apiserver.names import name_causes
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.environment import env_causes
from steelyard.local.apiserver.rules.fields import PROTOCOLS, duplicate, one_of, port_name, port_number
from steelyard.local.apiserver.rules.probes import (
    PROBES,
    complete_http,
    complete_probe,
    lifecycle_causes,
    probe_causes,
)
from steelyard.local.apiserver.rules.resources import resource_causes
from steelyard.local.apiserver.rules.volumes import mount_causes
from steelyard.types import Json, mapping, sequence

_PULL_POLICIES = ["Always", "IfNotPresent", "Never"]
_MESSAGE_POLICIES = ["File", "FallbackToLogsOnError"]
_TAGGED = re.compile(r"[:@][^/]*$")


def complete_container(container: Json) -> None:
    image = container.get("image") or ""
    # Kubernetes' default: what may change under its name is pulled each time, a digest never changes.
    untagged = not _TAGGED.search(image) or (image.endswith(":latest") and "@" not in image)
    defaults(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if untagged else "IfNotPresent",
    )
    for port in sequence(container, "ports"):
        defaults(port, protocol="TCP")
    for variable in sequence(container, "env"):
        if reference := mapping(variable, "valueFrom").get("fieldRef"):
            defaults(reference, apiVersion="v1")
    for name in PROBES:
        if name in container:
            complete_probe(container[name])
    for hook in mapping(container, "lifecycle").values():
        if hook.get("httpGet") is not None:
            complete_http(hook["httpGet"])


def container_causes(container: Json, path: str, volumes: set[str], grace: int = 30) -> list[Cause]:
    name = container.get("name") or ""
    causes = name_causes(name, f"{path}.name", "label") if name else [required(f"{path}.name")]
    causes += _image_causes(container, path) + _ports_causes(container, path)
    causes += env_causes(container, path) + mount_causes(container, path, volumes)
    causes += probe_causes(container, path)
    causes += lifecycle_causes(mapping(container, "lifecycle"), f"{path}.lifecycle", grace)
    policy = container.get("terminationMessagePolicy")
    causes += one_of(policy, f"{path}.terminationMessagePolicy", _MESSAGE_POLICIES)
    return causes + resource_causes(mapping(container, "resources"), f"{path}.resources")


def init_container_causes(container: Json, path: str) -> list[Cause]:
    """Return the faults of fields that only containers that run on may have."""
    # A sidecar: it starts among the init containers and runs on beside the others.
    if container.get("restartPolicy") == "Always":
        return []
    text = "may not be set for init containers without restartPolicy=Always"
    names = ("lifecycle", *PROBES)
    return [forbidden_field(f"{path}.{name}", text) for name in names if container.get(name) is not None]


def _image_causes(container: Json, path: str) -> list[Cause]:
    image, policy = container.get("image") or "", container.get("imagePullPolicy")
    causes = []
    if not image:
        causes.append(required(f"{path}.image"))
    elif image != image.strip():
        causes.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    if policy not in _PULL_POLICIES:
        causes.append(unsupported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES))
    return causes


def _ports_causes(container: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, port in enumerate(sequence(container, "ports")):
        where, name = f"{path}.ports[{index}]", port.get("name") or ""
        if name and (bad := port_name(name, f"{where}.name")):
            causes += bad
        elif name in names:
            causes.append(duplicate(f"{where}.name", name))
        elif name:
            names.add(name)
        causes += port_causes(port.get("containerPort"), f"{where}.containerPort")
        if port.get("hostPort"):
            causes += port_number(port["hostPort"], f"{where}.hostPort")
        causes += one_of(port.get("protocol"), f"{where}.protocol", PROTOCOLS)
    return causes


def port_causes(port: object, path: str) -> list[Cause]:
    return port_number(port, path) if port else [required(path)]
