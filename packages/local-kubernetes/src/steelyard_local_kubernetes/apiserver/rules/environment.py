"""Variables of containers and where their values come from."""

import re

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, not_supported
from steelyard_local_kubernetes.apiserver.names import key_causes, name_causes
from steelyard_local_kubernetes.apiserver.rules.fields import (
    clamp_quantity,
    emptiness_causes,
    quantity_causes,
)
from steelyard_schema.object_names import data_key_faults, variable_faults
from steelyard_schema.variables import size_faults

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_OBJECT = ("metadata.name", "metadata.namespace", "metadata.uid")
_POD = (
    *_OBJECT, "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP",
    "status.podIPs",
)  # fmt: skip
_VOLUME = (*_OBJECT, "metadata.labels", "metadata.annotations")
_KEYED_FIELDS = ("metadata.labels", "metadata.annotations")
_FORMER = {"spec.host": "spec.nodeName"}  # names that fields once had
_KNOWN = {*_POD, *_VOLUME, *_FORMER, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_KEYED = re.compile(r"(?!\[')(.+?)\['(.*)'\]", re.DOTALL)
_RESOURCES = [
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
]


def env_causes(container: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, variable in enumerate(sequence(container, "env")):
        causes += _variable_causes(variable, f"{path}.env[{index}]")
    for index, entry in enumerate(sequence(container, "envFrom")):
        causes += _from_causes(entry, path, f"{path}.envFrom[{index}]")
    texts = {field: sequence(container, field) for field in ("command", "args")}
    for field, fault in size_faults(sequence(container, "env"), texts):
        causes.append(Cause(f"{path}.{field}", f"Too long: {fault}", "FieldValueTooLong"))
    return causes


def _variable_causes(variable: Json, path: str) -> list[Cause]:
    name, source = variable.get("name") or "", variable.get("valueFrom")
    causes = emptiness_causes(variable, path, "name")
    if name:
        causes += [invalid(f"{path}.name", name, fault) for fault in variable_faults(name)]
    if source is None:
        return causes
    path = f"{path}.valueFrom"
    chosen = [way for way in _SOURCES if source.get(way) is not None]
    for way in chosen:
        causes += _source_causes(way, source[way], f"{path}.{way}")
    if not chosen:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        causes.append(invalid(path, "", text))
    elif variable.get("value"):
        causes.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(chosen) > 1:
        causes.append(invalid(path, "", "may not have more than one field specified at a time"))
    return causes


def _source_causes(way: str, source: Json, path: str) -> list[Cause]:
    if way == "fieldRef":
        return field_causes(source, path, _POD)
    if way == "resourceFieldRef":
        return resource_field_causes(source, path)
    causes = name_causes(source.get("name") or "", f"{path}.name")
    key = source.get("key") or ""
    return causes + (data_key_causes(key, f"{path}.key") if key else [missing_value(f"{path}.key")])


def data_key_causes(key: str, path: str) -> list[Cause]:
    """The key of a ConfigMap's or a Secret's data."""
    return [invalid(path, key, fault) for fault in data_key_faults(key)]


def field_causes(source: Json, path: str, fields: tuple[str, ...]) -> list[Cause]:
    """A field of the Pod that a container or a volume may read."""
    field, version = source.get("fieldPath") or "", source.get("apiVersion") or "v1"
    where = f"{path}.fieldPath"
    if not field:
        return [missing_value(where)]
    keyed, fault = _KEYED.fullmatch(field), ""
    if version != "v1":
        fault = f"unsupported pod version: {version}"
    elif keyed and keyed[1] not in _KEYED_FIELDS:
        fault = f"field label does not support subscript: {field}"
    elif not keyed and field not in _KNOWN:
        fault = f"field label not supported: {field}"
    if fault:
        return [invalid(where, field, f"error converting fieldPath: {fault}")]
    if keyed:
        return key_causes(keyed[2].lower() if keyed[1] == "metadata.annotations" else keyed[2], path)
    named = _FORMER.get(field, field)
    return [] if named in fields else [not_supported(where, named, sorted(fields))]


def volume_field_causes(source: Json, path: str) -> list[Cause]:
    return field_causes(source, path, _VOLUME)


def resource_field_causes(source: Json, path: str) -> list[Cause]:
    name = source.get("resource") or ""
    if not name:
        return [missing_value(f"{path}.resource")]
    if name not in _RESOURCES and not re.fullmatch(r"(limits|requests)\.hugepages-.+", name):
        return [not_supported(f"{path}.resource", name, _RESOURCES)]
    divisor = source.get("divisor")
    # Kubernetes reads a divisor of 0 as 1.
    if divisor is None or not clamp_quantity(divisor):
        return []
    causes = quantity_causes(divisor, f"{path}.divisor")
    if name.endswith(".cpu") and clamp_quantity(divisor) not in (1, clamp_quantity("1m")):
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
        causes.append(invalid(f"{path}.divisor", name, text))
    return causes


def _from_causes(source: Json, container: str, path: str) -> list[Cause]:
    chosen = [way for way in ("configMapRef", "secretRef") if source.get(way) is not None]
    if not chosen:
        return [invalid(f"{container}.envFrom", "", "must specify one of: `configMapRef` or `secretRef`")]
    causes = []
    if len(chosen) > 1:
        text = "may not have more than one field specified at a time"
        causes.append(invalid(f"{container}.envFrom", "", text))
    prefix = source.get("prefix") or ""
    if prefix:
        causes += [invalid(f"{path}.prefix", prefix, fault) for fault in variable_faults(prefix)]
    for way in chosen:
        name = source[way].get("name") or ""
        causes += name_causes(name, f"{path}.{way}.name") if name else [missing_value(f"{path}.{way}.name")]
    return causes
