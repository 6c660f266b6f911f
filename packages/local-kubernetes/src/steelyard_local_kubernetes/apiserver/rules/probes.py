"""Probes and lifecycle handlers of containers: defaults and checks."""

import re

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, forbidden_field, invalid, missing_value
from steelyard_local_kubernetes.apiserver.rules.fields import (
    choice_causes,
    emptiness_causes,
    not_negative,
    port,
    port_number,
)

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_ONCE = ("livenessProbe", "startupProbe")  # they pass or fail at once
_WAYS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HEADER = re.compile("[-A-Za-z0-9]+")
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def complete_probe(probe: Json) -> None:
    for name, value in _DEFAULTS.items():
        probe[name] = probe.get(name) or value  # 0 counts as absent
    if "httpGet" in probe:
        complete_http(probe["httpGet"])


def complete_http(action: Json) -> None:
    action["path"] = action.get("path") or "/"
    action["scheme"] = action.get("scheme") or "HTTP"


def probe_causes(container: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in PROBES:
        if (probe := container.get(name)) is not None:
            causes += _probe_causes(probe, f"{path}.{name}", once=name in _ONCE)
            grace = probe.get("terminationGracePeriodSeconds")
            if name not in _ONCE and grace is not None:
                text = "must not be set for readinessProbes"
                causes.append(invalid(f"{path}.{name}.terminationGracePeriodSeconds", grace, text))
    return causes


def _probe_causes(probe: Json, path: str, *, once: bool) -> list[Cause]:
    causes = handler_causes(probe, path, _WAYS[:4]) + not_negative(probe, path, *_NUMBERS)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if once and probe.get("successThreshold") != 1:
        causes.append(invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1"))
    return causes


def handler_causes(handler: Json, path: str, ways: tuple[str, ...]) -> list[Cause]:
    """Exactly one action of a probe or a hook, and that one complete."""
    chosen = [way for way in ways if handler.get(way) is not None]
    if not chosen:
        return [missing_value(path, "must specify a handler type")]
    causes: list[Cause] = []
    action, where = handler[chosen[0]], f"{path}.{chosen[0]}"
    match chosen[0]:
        case "exec":
            causes += emptiness_causes(action, where, "command")
        case "httpGet":
            causes += _http_causes(action, where)
        case "tcpSocket":
            causes += port(action.get("port"), f"{where}.port")
        case "grpc":
            causes += port_number(action.get("port") or 0, f"{where}.port")
    text = "may not specify more than 1 handler type"
    return causes + [forbidden_field(f"{path}.{way}", text) for way in chosen[1:]]


def _http_causes(action: Json, path: str) -> list[Cause]:
    causes = emptiness_causes(action, path, "path") + port(action.get("port"), f"{path}.port")
    causes += choice_causes(action.get("scheme"), f"{path}.scheme", ["HTTP", "HTTPS"])
    for header in sequence(action, "httpHeaders"):
        name = header.get("name") or ""
        if not _HEADER.fullmatch(name):
            causes.append(invalid(f"{path}.httpHeaders", name, _HEADER_TEXT))
    return causes


def lifecycle_causes(lifecycle: Json, path: str, grace: int) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("postStart", "preStop"):
        if (hook := lifecycle.get(name)) is None:
            continue
        where = f"{path}.{name}"
        causes += handler_causes(hook, where, ("exec", "httpGet", "tcpSocket", "sleep"))
        seconds = mapping(hook, "sleep").get("seconds")
        if seconds is not None and not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            causes.append(invalid(f"{where}.sleep", seconds, text))
    return causes
