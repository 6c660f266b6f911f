"""Containers of Pods and of templates: defaults and checks."""

import re

from steelyard.local.apiserver.errors import Cause, invalid, required, unsupported
from steelyard.local.apiserver.messages import Json
from steelyard.local.apiserver.names import name_causes
from steelyard.local.apiserver.quantity import quantity
from steelyard.local.apiserver.rules.common import defaults

_PULL_POLICIES = ["Always", "IfNotPresent", "Never"]
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_ENV = re.compile(r"[^=\x00]+")
_TAGGED = re.compile(r"[:@][^/]*$")


def complete_container(container: Json) -> None:
    image = container.get("image") or ""
    untagged = not _TAGGED.search(image) or (image.endswith(":latest") and "@" not in image)
    defaults(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if untagged else "IfNotPresent",
    )
    for port in container.get("ports") or ():
        defaults(port, protocol="TCP")
    for each in container.get("env") or ():
        if reference := (each.get("valueFrom") or {}).get("fieldRef"):
            defaults(reference, apiVersion="v1")
    for name in _PROBES:
        if name in container:
            _complete_probe(container[name])


def _complete_probe(probe: Json) -> None:
    defaults(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    if "httpGet" in probe:
        defaults(probe["httpGet"], path="/", scheme="HTTP")


def container_causes(container: Json, path: str, volumes: set[str]) -> list[Cause]:
    name = container.get("name") or ""
    causes = name_causes(name, f"{path}.name", "label") if name else [required(f"{path}.name")]
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        causes.append(
            unsupported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
        )
    for index, port in enumerate(container.get("ports") or ()):
        causes += port_causes(port.get("containerPort"), f"{path}.ports[{index}].containerPort")
    for index, each in enumerate(container.get("env") or ()):
        causes += _env_causes(each, f"{path}.env[{index}]")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        causes += _mount_causes(mount, f"{path}.volumeMounts[{index}]", volumes)
    for probe in _PROBES:
        if probe in container:
            causes += _probe_causes(container[probe], f"{path}.{probe}")
    return causes + _resource_causes(container.get("resources") or {}, f"{path}.resources")


def port_causes(port: object, path: str) -> list[Cause]:
    if not port:
        return [required(path)]
    if not isinstance(port, int) or not 0 < port < 65536:
        return [invalid(path, port, "must be between 1 and 65535, inclusive")]
    return []


def _env_causes(each: Json, path: str) -> list[Cause]:
    name = each.get("name") or ""
    causes = [] if name else [required(f"{path}.name")]
    if name and not _ENV.fullmatch(name):
        causes.append(invalid(f"{path}.name", name, "a valid environment variable name must not contain '='"))
    if each.get("value") and each.get("valueFrom"):
        causes.append(invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty"))
    return causes


def _mount_causes(mount: Json, path: str, volumes: set[str]) -> list[Cause]:
    name = mount.get("name") or ""
    causes = [] if name else [required(f"{path}.name")]
    if name and name not in volumes:
        causes.append(Cause(f"{path}.name", f'Not found: "{name}"', "FieldValueNotFound"))
    if not mount.get("mountPath"):
        causes.append(required(f"{path}.mountPath"))
    return causes


def _probe_causes(probe: Json, path: str) -> list[Cause]:
    ways = [each for each in ("exec", "httpGet", "tcpSocket", "grpc") if each in probe]
    if len(ways) != 1:
        text = "must specify a handler type" if not ways else "may not specify more than 1 handler type"
        return (
            [required(path, text)] if not ways else [Cause(path, f"Forbidden: {text}", "FieldValueForbidden")]
        )
    return []


def _resource_causes(resources: Json, path: str) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = []
    for name, value in requests.items():
        if name in limits and quantity(value) > quantity(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid(f"{path}.requests", str(value), text))
    return causes
