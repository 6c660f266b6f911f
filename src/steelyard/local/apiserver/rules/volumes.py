"""Volumes of Pods and their mounts: defaults and checks."""

from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required
from steelyard.local.apiserver.names import name_causes
from steelyard.local.apiserver.rules.common import defaults
from steelyard.local.apiserver.rules.environment import resource_field_causes, volume_field_causes
from steelyard.local.apiserver.rules.fields import (
    amount_of,
    descending_path,
    duplicate,
    file_mode,
    needed,
    no_backsteps,
    one_of,
    unreserved_path,
)
from steelyard.types import Json, sequence

_HOST_TYPES = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
]
_NAMES = {
    "configMap": "name",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "hostPath": "path",
}
_PROPAGATIONS = ["Bidirectional", "HostToContainer", "None"]


def complete_volume(volume: Json) -> None:
    if not any(volume.keys() - {"name"}):
        # Kubernetes' default for a volume that names no source.
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if source in volume:
            defaults(volume[source], defaultMode=0o644)
    if "hostPath" in volume:
        defaults(volume["hostPath"], type="")


def volume_causes(spec: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, volume in enumerate(sequence(spec, "volumes")):
        where, name = f"{path}.volumes[{index}]", volume.get("name") or ""
        causes += name_causes(name, f"{where}.name", "label") if name else [required(f"{where}.name")]
        if name in seen:
            causes.append(duplicate(f"{where}.name", name))
        seen.add(name)
        causes += _source_causes(volume, where)
    return causes


def _source_causes(volume: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    chosen = [way for way in volume if way != "name" and volume[way] is not None]
    for way in chosen[1:]:
        causes.append(forbidden_field(f"{path}.{way}", "may not specify more than 1 volume type"))
    for way in chosen[:1]:
        source, where = volume[way], f"{path}.{way}"
        causes += needed(source, where, _NAMES[way]) if way in _NAMES else []
        causes += file_mode(source.get("defaultMode"), f"{where}.defaultMode")
        causes += _content_causes(way, source, where)
    return causes


def _content_causes(way: str, source: Json, path: str) -> list[Cause]:
    match way:
        case "configMap" | "secret":
            return _items_causes(source, path)
        case "hostPath":
            causes = no_backsteps(source.get("path") or "", f"{path}.path")
            return causes + one_of(source.get("type"), f"{path}.type", _HOST_TYPES)
        case "emptyDir":
            size = source.get("sizeLimit")
            if size is None or amount_of(size) >= 0:
                return []
            return [forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
        case "persistentVolumeClaim":
            # Stricter than a real server, where no claim has such a name: here it is the name of a folder.
            name = source.get("claimName") or ""
            return name_causes(name, f"{path}.claimName") if name else []
        case "downwardAPI":
            return _fields_causes(source, path)
        case "projected":
            return _projected_causes(source, path)
        case _:
            return []


def _items_causes(source: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, item in enumerate(sequence(source, "items")):
        where = f"{path}.items[{index}]"
        causes += needed(item, where, "key", "path")
        causes += unreserved_path(item.get("path") or "", f"{where}.path")
        causes += file_mode(item.get("mode"), f"{where}.mode")
    return causes


def _fields_causes(source: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for item in sequence(source, "items"):
        causes += needed(item, path, "path") + unreserved_path(item.get("path") or "", f"{path}.path")
        causes += file_mode(item.get("mode"), f"{path}.mode")
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is None and resource is None:
            causes.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        elif field is not None and resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid(path, "resource", text))
        elif field is not None:
            causes += volume_field_causes(field, f"{path}.fieldRef")
        else:
            causes += resource_field_causes(resource or {}, f"{path}.resourceFieldRef")
            if not (resource or {}).get("containerName"):
                causes.append(required(f"{path}.resourceFieldRef.containerName"))
    return causes


def _projected_causes(source: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, entry in enumerate(sequence(source, "sources")):
        where = f"{path}.sources[{index}]"
        for way in ("configMap", "secret"):
            if entry.get(way) is not None:
                causes += needed(entry[way], f"{where}.{way}", "name") + _items_causes(
                    entry[way], f"{where}.{way}"
                )
        if entry.get("downwardAPI") is not None:
            causes += _fields_causes(entry["downwardAPI"], f"{where}.downwardAPI")
        if (token := entry.get("serviceAccountToken")) is not None:
            causes += needed(token, f"{where}.serviceAccountToken", "path")
            causes += unreserved_path(token.get("path") or "", f"{where}.serviceAccountToken.path")
    return causes


def mount_causes(container: Json, path: str, volumes: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    points: set[str] = set()
    for index, mount in enumerate(sequence(container, "volumeMounts")):
        where = f"{path}.volumeMounts[{index}]"
        name, point = mount.get("name") or "", mount.get("mountPath") or ""
        causes += needed(mount, where, "name")
        if name and name not in volumes:
            causes.append(Cause(f"{where}.name", f'Not found: "{name}"', "FieldValueNotFound"))
        causes += needed(mount, where, "mountPath")
        # Of two volumes at one place the second would hide the first.
        if point in points:
            causes.append(invalid(f"{where}.mountPath", point, "must be unique"))
        points.add(point)
        for field in ("subPath", "subPathExpr"):
            causes += descending_path(mount.get(field) or "", f"{path}.volumeMounts.{field}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            text = "subPathExpr and subPath are mutually exclusive"
            causes.append(invalid(f"{where}.subPathExpr", mount["subPathExpr"], text))
        propagation = mount.get("mountPropagation")
        causes += one_of(propagation, f"{path}.volumeMounts.mountPropagation", _PROPAGATIONS)
    return causes
