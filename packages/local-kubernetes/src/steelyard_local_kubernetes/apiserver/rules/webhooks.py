"""Checks of webhook configurations, and of the rules and conditions that policies share with them."""

from urllib.parse import urlsplit

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, not_supported
from steelyard_local_kubernetes.apiserver.expressions.plain import CONDITION, find_fault
from steelyard_local_kubernetes.apiserver.names import key_causes, name_causes
from steelyard_local_kubernetes.apiserver.rules.common import selector_causes
from steelyard_local_kubernetes.apiserver.rules.fields import at_most, choice_causes, duplicate

OPERATIONS = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
_SCOPES = ["*", "Cluster", "Namespaced"]
_NO_EFFECTS = ["None", "NoneOnDryRun"]
_VERSIONS = "v1, v1beta1"
_FORM = "; desired format: https://host[/path]"
_ONE_CLIENT = "exactly one of url or service is required"


def check(obj: Json, old: Json | None) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, hook in enumerate(sequence(obj, "webhooks")):
        path = f"webhooks[{index}]"
        causes += _hook_causes(hook, path) + _version_causes(hook, f"{path}.admissionReviewVersions")
        if (name := hook.get("name") or "") in seen and name:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
    return causes


def _hook_causes(hook: Json, path: str) -> list[Cause]:
    causes = _name_causes(hook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(sequence(hook, "rules")):
        causes += rule_causes(rule, f"{path}.rules[{index}]", OPERATIONS)
    causes += choice_causes(hook.get("failurePolicy"), f"{path}.failurePolicy", ["Fail", "Ignore"])
    causes += choice_causes(hook.get("matchPolicy"), f"{path}.matchPolicy", ["Equivalent", "Exact"])
    effects = hook.get("sideEffects")
    if effects is None:
        causes.append(missing_value(f"{path}.sideEffects", f"must specify one of {', '.join(_NO_EFFECTS)}"))
    causes += choice_causes(effects, f"{path}.sideEffects", _NO_EFFECTS)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{path}.timeoutSeconds", seconds, text))
    for name in ("namespaceSelector", "objectSelector"):
        causes += selector_causes(hook.get(name) or {}, f"{path}.{name}", empty=True)
    causes += choice_causes(
        hook.get("reinvocationPolicy"), f"{path}.reinvocationPolicy", ["IfNeeded", "Never"]
    )
    causes += client_causes(mapping(hook, "clientConfig"), f"{path}.clientConfig")
    return causes + condition_causes(sequence(hook, "matchConditions"), f"{path}.matchConditions")


def _name_causes(name: str, path: str) -> list[Cause]:
    if not name:
        return [missing_value(path)]
    causes = name_causes(name, path)
    if not causes and name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        causes.append(invalid(path, name, text))
    return causes


def _version_causes(hook: Json, path: str) -> list[Cause]:
    versions = sequence(hook, "admissionReviewVersions")
    if not versions:
        return [missing_value(path, f"must specify one of {_VERSIONS}")]
    causes: list[Cause] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            causes.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            causes += name_causes(version, f"{path}[{index}]", "service")
    if not {"v1", "v1beta1"} & set(versions):
        causes.append(invalid(path, versions, f"must include at least one of {_VERSIONS}"))
    return causes


# ---- rules


def rule_causes(rule: Json, path: str, operations: list[str]) -> list[Cause]:
    causes: list[Cause] = []
    chosen = sequence(rule, "operations")
    causes += _wild_causes(chosen, f"{path}.operations", "operations")
    for index, operation in enumerate(chosen):
        if operation not in operations:
            causes.append(not_supported(f"{path}.operations[{index}]", operation, operations))
    causes += _wild_causes(sequence(rule, "apiGroups"), f"{path}.apiGroups", "API groups")
    versions = sequence(rule, "apiVersions")
    causes += _wild_causes(versions, f"{path}.apiVersions", "API versions")
    causes += [missing_value(f"{path}.apiVersions[{i}]") for i, version in enumerate(versions) if not version]
    causes += _resource_causes(sequence(rule, "resources"), f"{path}.resources")
    return causes + choice_causes(rule.get("scope"), f"{path}.scope", _SCOPES)


def _wild_causes(values: list[str], path: str, shown: str) -> list[Cause]:
    if not values:
        return [missing_value(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {shown}")]
    return []


def _resource_causes(resources: list[str], path: str) -> list[Cause]:
    causes = [] if resources else [missing_value(path)]
    whole: set[str] = set()
    parts: set[str] = set()
    plain = False
    for index, name in enumerate(resources):
        resource, slash, part = name.partition("/")
        where = f"{path}[{index}]"
        if not name:
            causes.append(missing_value(where))
        elif not slash:
            plain = name != "*"
        else:
            if resource in whole:
                causes.append(invalid(where, name, f"if '{resource}/*' is present, must not specify {name}"))
            if part in parts:
                causes.append(invalid(where, name, f"if '*/{part}' is present, must not specify {name}"))
            whole |= {resource} if part == "*" else set()
            parts |= {part} if resource == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        causes.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid(path, resources, text))
    return causes


# ---- clients


def client_causes(config: Json, path: str) -> list[Cause]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [missing_value(path, _ONE_CLIENT)]
    if url is not None:
        return _url_causes(str(url), f"{path}.url")
    return _service_causes(mapping(config, "service"), f"{path}.service")


def _url_causes(url: str, path: str) -> list[Cause]:
    try:
        parts = urlsplit(url)
        if url.startswith(":"):
            raise ValueError("missing protocol scheme")
    except ValueError as error:
        return [missing_value(path, f'url must be a valid URL: parse "{url}": {error}{_FORM}')]
    causes = []
    if parts.scheme != "https":
        causes.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        causes.append(invalid(path, host, f"host must be specified{_FORM}"))
    for value, text in (
        (user, "user information is"),
        (parts.fragment, "fragments are"),
        (parts.query, "query parameters are"),
    ):
        if value:
            causes.append(invalid(path, value, f"{text} not permitted in the URL"))
    return causes


def _service_causes(service: Json, path: str) -> list[Cause]:
    causes = [missing_value(f"{path}.{name}") for name in ("name", "namespace") if not service.get(name)]
    port = service.get("port") or 0
    if not 0 < port < 65536:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid(f"{path}.port", port, text))
    url = service.get("path") or "/"
    if url == "/":
        return causes
    where = f"{path}.path"
    if url == "//":
        return [*causes, invalid(where, url, "segment[0] may not be empty")]
    if not url.startswith("/"):
        causes.append(invalid(where, url, "must start with a '/'"))
    for index, step in enumerate(url[1:].removesuffix("/").split("/")):
        if not step:
            causes.append(invalid(where, url, f"segment[{index}] may not be empty"))
            continue
        for cause in name_causes(step, where):
            text = cause.message.partition(": ")[2].partition(": ")[2]
            causes.append(invalid(where, url, f"segment[{index}]: {text}"))
    return causes


# ---- conditions


def condition_causes(conditions: list[Json], path: str, names: tuple[str, ...] = CONDITION) -> list[Cause]:
    causes = at_most(path, len(conditions), 64)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{path}[{index}]"
        expression, name = (condition.get("expression") or "").strip(), condition.get("name") or ""
        if not expression:
            causes.append(missing_value(f"{where}.expression"))
        elif fault := find_fault(expression, names, bool):
            causes.append(invalid(f"{where}.expression", expression, fault))
        causes += key_causes(name, f"{where}.name") if name else [missing_value(f"{where}.name")]
        if name and name in seen:
            causes.append(duplicate(f"{where}.name", name))
        seen.add(name)
    return causes
