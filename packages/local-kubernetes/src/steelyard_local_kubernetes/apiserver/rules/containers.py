"""Containers of Pods and of templates: defaults and checks."""

import re

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.names import name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults
from steelyard_local_kubernetes.apiserver.rules.environment import env_causes
from steelyard_local_kubernetes.apiserver.rules.fields import (
    MAX_INT32,
    PROTOCOLS,
    choice_causes,
    duplicate,
    port_name,
    port_number,
)
from steelyard_local_kubernetes.apiserver.rules.probes import (
    PROBES,
    complete_http,
    complete_probe,
    lifecycle_causes,
    probe_causes,
)
from steelyard_local_kubernetes.apiserver.rules.resources import resource_causes
from steelyard_local_kubernetes.apiserver.rules.table import causes_by, choice, need, number, part
from steelyard_local_kubernetes.apiserver.rules.volumes import device_causes, mount_causes

_WHITESPACE = "must not have leading or trailing whitespace"
_RESIZED, _RESIZES = ["cpu", "memory"], ["NotRequired", "RestartContainer"]
_IMAGE = (need("image"), choice("terminationMessagePolicy", "File", "FallbackToLogsOnError", needed=True))
_PULL_POLICY = choice("imagePullPolicy", "Always", "IfNotPresent", "Never", needed=True)
_IDS = tuple(number(name, 0, MAX_INT32) for name in ("runAsUser", "runAsGroup"))
_SECURITY = part("securityContext", *_IDS, choice("procMount", "Default", "Unmasked"))
_WORD = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_WORD}(?:\.{_WORD})*|\[[a-fA-F0-9:]+\])"
_PATH = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    f"(?:{_HOST}(?::[0-9]+)?/)?(?P<name>{_PATH}(?:/{_PATH})*)(?::(?P<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{{0,127}}))?"
    "(?P<digest>@(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}))?"
)
_LONGEST_REFERENCE, _LONGEST_NAME = 1000, 255


def _is_latest(image: str) -> bool:
    """Return whether an image may change under its name, so that it is pulled each time; false for any other text."""
    reference = _REFERENCE.fullmatch(image) if len(image) <= _LONGEST_REFERENCE else None
    if reference is None or len(reference["name"]) > _LONGEST_NAME or re.fullmatch("[a-f0-9]{64}", image):
        return False
    return reference["tag"] == "latest" or not (reference["tag"] or reference["digest"])


def complete_container(container: Json) -> None:
    defaults(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if _is_latest(container.get("image") or "") else "IfNotPresent",
    )
    for port in sequence(container, "ports"):
        defaults(port, protocol="TCP")
    for variable in sequence(container, "env"):
        source = mapping(variable, "valueFrom")
        source.pop("fileKeyRef", None)  # behind a gate that is off: a real server drops it
        if reference := source.get("fieldRef"):
            defaults(reference, apiVersion="v1")
    for name in PROBES:
        if name in container:
            complete_probe(container[name])
    for hook in mapping(container, "lifecycle").values():
        if hook.get("httpGet") is not None:
            complete_http(hook["httpGet"])


def container_causes(
    container: Json, path: str, volumes: dict[str, Json], policy: str = "Always"
) -> list[Cause]:
    """Faults of what every container has. `policy`: the Pod's restart policy."""
    name = container.get("name") or ""
    causes = name_causes(name, f"{path}.name", "label") if name else [missing_value(f"{path}.name")]
    causes += causes_by(_IMAGE, container, path) + _ports_causes(container, path)
    causes += env_causes(container, path) + mount_causes(container, path, volumes)
    causes += device_causes(container, path, volumes)
    causes += _PULL_POLICY(container, path)
    causes += resource_causes(mapping(container, "resources"), f"{path}.resources")
    causes += _claim_causes(container, f"{path}.resources.claims")
    causes += _resize_causes(container, f"{path}.resizePolicy", policy)
    return causes + _SECURITY(container, path)


def running_causes(container: Json, path: str, grace: int) -> list[Cause]:
    """Faults of what only containers have that run on: hooks and probes."""
    causes = lifecycle_causes(mapping(container, "lifecycle"), f"{path}.lifecycle", grace)
    return causes + probe_causes(container, path)


def _claim_causes(container: Json, path: str) -> list[Cause]:
    causes = []
    for index, claim in enumerate(sequence(container, "resources", "claims")):
        if not claim.get("name"):
            causes.append(missing_value(f"{path}[{index}]"))
    return causes


def _resize_causes(container: Json, path: str, policy: str) -> list[Cause]:
    causes: list[Cause] = []
    for item in sequence(container, "resizePolicy"):
        for name, choices in (("resourceName", _RESIZED), ("restartPolicy", _RESIZES)):
            value = item.get(name)
            if not value:
                causes.append(missing_value(path))
            elif value not in choices:
                causes.append(not_supported(path, value, choices))
        restart = item.get("restartPolicy") or ""
        if policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            causes.append(invalid(path, restart, text))
    return causes


def whitespace_causes(spec: Json, path: str) -> list[Cause]:
    """Faults that a real server finds in Pods, and not in templates."""
    return [
        invalid(f"{path}.{field}[{index}].image", container["image"], _WHITESPACE)
        for field in ("containers", "initContainers")
        for index, container in enumerate(sequence(spec, field))
        if (container.get("image") or "") != (container.get("image") or "").strip()
    ]


def host_port_causes(containers: list[Json], path: str) -> list[Cause]:
    """One port of the host, for one container."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for place, port in enumerate(sequence(container, "ports")):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if key in seen:
                causes.append(duplicate(f"{path}[{index}].ports[{place}].hostPort", key))
            seen.add(key)
    return causes


def init_container_causes(container: Json, path: str) -> list[Cause]:
    """Return the faults of fields that only containers that run on may have."""
    # A sidecar: it starts among the init containers and runs on along with the others.
    if container.get("restartPolicy") == "Always":
        return []
    text = "may not be set for init containers without restartPolicy=Always"
    names = ("lifecycle", *PROBES)
    return [forbidden_field(f"{path}.{name}", text) for name in names if container.get(name) is not None]


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
        causes += choice_causes(port.get("protocol"), f"{where}.protocol", PROTOCOLS)
    return causes


def port_causes(port: object, path: str) -> list[Cause]:
    return port_number(port, path) if port else [missing_value(path)]
