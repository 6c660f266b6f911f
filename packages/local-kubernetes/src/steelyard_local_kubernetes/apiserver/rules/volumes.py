"""Volumes of Pods and their mounts: defaults and checks."""

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
from steelyard_local_kubernetes.apiserver.rules.environment import resource_field_causes, volume_field_causes
from steelyard_local_kubernetes.apiserver.rules.fields import (
    clamp_quantity,
    descending_path,
    duplicate,
    emptiness_causes,
    no_backsteps,
    volume_path,
)
from steelyard_local_kubernetes.apiserver.rules.table import (
    Rule,
    causes_by,
    choice,
    if_given,
    if_named,
    items,
    need,
    number,
    part,
)

_HOST_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_TOKEN_SECONDS = (
    "may not specify a duration less than 10 minutes",
    "may not specify a duration larger than 2^32 seconds",
)


def complete_volume(volume: Json) -> None:
    if not any(volume.keys() - {"name"}):
        # Kubernetes' default for a volume that names no source.
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if source in volume:
            defaults(volume[source], defaultMode=0o644)
    for source in (mapping(volume, "downwardAPI"), *sequence(volume, "projected", "sources")):
        for item in sequence(source, "items") or sequence(mapping(source, "downwardAPI"), "items"):
            if reference := item.get("fieldRef"):
                defaults(reference, apiVersion="v1")
        if token := source.get("serviceAccountToken"):
            defaults(token, expirationSeconds=3600)
    if "hostPath" in volume:
        defaults(volume["hostPath"], type="")


def _path_causes(source: Json, path: str) -> list[Cause]:
    return volume_path(source.get("path") or "", f"{path}.path")


def _host_path_causes(source: Json, path: str) -> list[Cause]:
    if not source.get("path"):
        return [missing_value(f"{path}.path")]
    return no_backsteps(source["path"], f"{path}.path") + choice("type", *_HOST_TYPES)(source, path)


def _size_causes(source: Json, path: str) -> list[Cause]:
    size = source.get("sizeLimit")
    if size is None or clamp_quantity(size) >= 0:
        return []
    return [forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def _fields_causes(source: Json, path: str) -> list[Cause]:
    """Files of the Pod's own fields; a real server names no index."""
    return [
        cause for item in sequence(source, "items") for cause in causes_by((*_FIELD, _content), item, path)
    ]


def _content(item: Json, path: str) -> list[Cause]:
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is None and resource is None:
        return [missing_value(path, "one of fieldRef and resourceFieldRef is required")]
    if field is not None:
        causes = volume_field_causes(field, f"{path}.fieldRef")
        text = "fieldRef and resourceFieldRef can not be specified simultaneously"
        return causes + ([invalid(path, "resource", text)] if resource is not None else [])
    causes = resource_field_causes(resource or {}, f"{path}.resourceFieldRef")
    return need("containerName")(resource or {}, f"{path}.resourceFieldRef") + causes


def _nfs_causes(source: Json, path: str) -> list[Cause]:
    causes = need("server", "path")(source, path)
    if not (source.get("path") or "").startswith("/"):
        causes.append(invalid(f"{path}.path", source.get("path") or "", "must be an absolute path"))
    return causes


def _flocker_causes(source: Json, path: str) -> list[Cause]:
    if not source.get("datasetName") and not source.get("datasetUUID"):
        return [missing_value(path, "one of datasetName and datasetUUID is required")]
    if source.get("datasetName") and source.get("datasetUUID"):
        text = "datasetName and datasetUUID can not be specified simultaneously"
        return [invalid(path, "resource", text)]
    return []


def _fibre_causes(source: Json, path: str) -> list[Cause]:
    names, ids = source.get("targetWWNs"), source.get("wwids")
    where = f"{path}.targetWWNs"
    if not names and not ids:
        return [missing_value(where, "must specify either targetWWNs or wwids, but not both")]
    if names and ids:
        return [invalid(where, names, "targetWWNs and wwids can not be specified simultaneously")]
    return number("lun", 0, 255)(source, path) if names else []


def _token_causes(token: Json, path: str) -> list[Cause]:
    seconds, causes = token.get("expirationSeconds") or 0, []
    for wrong, text in zip((seconds < 600, seconds > 1 << 32), _TOKEN_SECONDS, strict=True):
        causes += [invalid(f"{path}.expirationSeconds", seconds, text)] if wrong else []
    # A real server names the volume and not the source.
    volume = path.partition(".sources[")[0]
    return causes + need("path")(token, volume) + _path_causes(token, volume)


def _projection_causes(source: Json, path: str) -> list[Cause]:
    """Faults of the sources of one volume, which share its files."""
    causes: list[Cause] = []
    taken: set[str] = set()
    for index, projection in enumerate(sequence(source, "sources")):
        where = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if (keys := projection.get(kind)) is not None:
                causes += need("name")(keys, f"{where}.{kind}")
                for number, item in enumerate(sequence(keys, "items")):
                    causes += causes_by(_KEY, item, f"{where}.{kind}.items[{number}]")
                    causes += _duplicate_path_causes(item, taken, path, keys.get("name") or "")
        for item in sequence(projection, "downwardAPI", "items"):
            causes += causes_by((*_FIELD, _content), item, f"{where}.downwardAPI")
            causes += _duplicate_path_causes(item, taken, path, item.get("path") or "")
        if (token := projection.get("serviceAccountToken")) is not None:
            causes += _token_causes(token, f"{where}.serviceAccountToken")
        if sum(value is not None for value in projection.values()) > 1:
            text = "may not specify more than 1 volume type per source"
            causes.append(forbidden_field(where, text))
    return causes


def _duplicate_path_causes(item: Json, taken: set[str], path: str, shown: str) -> list[Cause]:
    """Say that another source has this file; a real server shows the object's name, or the path where there is none."""
    place = item.get("path") or ""
    if place in taken:
        return [invalid(path, shown, "conflicting duplicate paths")]
    taken |= {place} - {""}
    return []


_FILE_MODE = number("mode", 0, 0o777, _MODE)
_DEFAULT_MODE = number("defaultMode", 0, 0o777, _MODE)
_FIELD: tuple[Rule, ...] = (need("path"), _path_causes, _FILE_MODE)
_KEY: tuple[Rule, ...] = (need("key", "path"), _path_causes, _FILE_MODE)
_ITEMS = items("items", *_KEY)
_PARTITION = number("partition", 0, 255, "must be between 1 and 255, inclusive")
_SECRET = part("secretRef", need("name"))
# In the order of a real server: of two ways the first counts, and the second is one too many.
_SOURCES: dict[str, tuple[Rule, ...]] = {
    "emptyDir": (_size_causes,),
    "hostPath": (_host_path_causes,),
    "gitRepo": (need("repository"), if_given("directory", descending_path)),
    "gcePersistentDisk": (need("pdName"), _PARTITION),
    "awsElasticBlockStore": (need("volumeID"), _PARTITION),
    "secret": (need("secretName"), _DEFAULT_MODE, _ITEMS),
    "nfs": (_nfs_causes,),
    "iscsi": (need("targetPortal", "iqn"), number("lun", 0, 255)),
    "glusterfs": (need("endpoints", "path"),),
    "flocker": (_flocker_causes,),
    "persistentVolumeClaim": (need("claimName"),),
    "rbd": (need("monitors", "image"),),
    "cinder": (need("volumeID"), _SECRET),
    "cephfs": (need("monitors"),),
    "quobyte": (
        need("registry", detail="must be a host:port pair or multiple pairs separated by commas"),
        need("volume"),
    ),
    "downwardAPI": (_DEFAULT_MODE, _fields_causes),
    "fc": (_fibre_causes,),
    "flexVolume": (need("driver"),),
    "configMap": (need("name"), _DEFAULT_MODE, _ITEMS),
    "azureFile": (need("secretName", "shareName"),),
    "vsphereVolume": (need("volumePath"),),
    "photonPersistentDisk": (need("pdID"),),
    "portworxVolume": (need("volumeID"),),
    "azureDisk": (need("diskName", "diskURI"),),
    "storageos": (
        need("volumeName"),
        if_named("volumeName", "label"),
        if_named("volumeNamespace", "label"),
        _SECRET,
    ),
    "projected": (_DEFAULT_MODE, _projection_causes),
    "scaleIO": (need("gateway", "system", "volumeName"),),
    "csi": (need("driver"), part("nodePublishSecretRef", need("name"))),
    "ephemeral": (need("volumeClaimTemplate"),),
}
# Paths that a real server spells otherwise than the fields: of the source's own faults, and of one too many.
_SPELLED = {"gcePersistentDisk": "persistentDisk"}
_SPELLED_TWICE = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}

_CLAIM_WAYS = ("resourceClaimName", "resourceClaimTemplateName")


def volume_causes(spec: Json, path: str) -> tuple[list[Cause], dict[str, Json]]:
    """Faults of the volumes, and those without a fault by their names: of others no mount is known."""
    causes: list[Cause] = []
    names: dict[str, Json] = {}
    for index, volume in enumerate(sequence(spec, "volumes")):
        where, name = f"{path}.volumes[{index}]", volume.get("name") or ""
        own = _source_causes(volume, where)
        own += name_causes(name, f"{where}.name", "label") if name else [missing_value(f"{where}.name")]
        if name in names:
            own.append(duplicate(f"{where}.name", name))
        if not own:
            names[name] = volume
        causes += own
    return causes, names


def claim_name_causes(spec: Json, path: str) -> list[Cause]:
    """Faults of the claims of devices that a Pod names."""
    causes: list[Cause] = []
    names: set[str] = set()
    for index, claim in enumerate(sequence(spec, "resourceClaims")):
        where, name = f"{path}.resourceClaims[{index}]", claim.get("name") or ""
        if not name:
            causes.append(missing_value(f"{where}.name"))
        elif name in names:
            causes.append(duplicate(f"{where}.name", name))
        else:
            causes += name_causes(name, f"{where}.name", "label")
        names.add(name)
        ways = [claim.get(way) for way in _CLAIM_WAYS]
        if ways.count(None) != 1:
            # As the server's own program keeps it.
            shown = {f"{way[0].upper()}{way[1:]}": claim.get(way) for way in ("name", *_CLAIM_WAYS)}
            shown["Name"] = name
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            if None not in ways:
                text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            causes.append(invalid(where, shown, text))
        for way, value in zip(_CLAIM_WAYS, ways, strict=True):
            causes += name_causes(value, f"{where}.{way}") if value is not None else []
    return causes


def device_causes(container: Json, path: str, volumes: dict[str, Json]) -> list[Cause]:
    """Faults of the volumes that a container sees as devices."""
    causes: list[Cause] = []
    names: set[str] = set()
    paths: set[str] = set()
    mounts = sequence(container, "volumeMounts")
    for index, device in enumerate(sequence(container, "volumeDevices")):
        where = f"{path}.volumeDevices[{index}]"
        name, place = device.get("name") or "", device.get("devicePath") or ""
        causes += emptiness_causes(device, where, "name")
        if name in names:
            causes.append(invalid(f"{where}.name", name, "must be unique"))
        if name not in volumes:
            causes.append(Cause(f"{where}.name", f'Not found: "{name}"', "FieldValueNotFound"))
        elif not any(volumes[name].get(kind) is not None for kind in ("persistentVolumeClaim", "ephemeral")):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            causes.append(invalid(f"{where}.name", name, text))
        causes += emptiness_causes(device, where, "devicePath")
        if place in paths:
            causes.append(invalid(f"{where}.devicePath", place, "must be unique"))
        if ".." in place.split("/"):
            causes.append(invalid(f"{where}.devicePath", place, "can not contain backsteps ('..')"))
        else:
            paths.add(place)
        if any(mount.get("name", "") == name for mount in mounts):
            causes.append(invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if any(mount.get("mountPath", "") == place for mount in mounts):
            text = "must not already exist as a path in volumeMounts"
            causes.append(invalid(f"{where}.devicePath", place, text))
        names |= {name} - {""}
    return causes


def _source_causes(volume: Json, path: str) -> list[Cause]:
    chosen = [way for way in volume if way in _SOURCES and volume[way] is not None]
    if len(chosen) > 1:
        chosen.sort(key=[*_SOURCES].index)
    if not chosen:
        return [missing_value(path, "must specify a volume type")]
    first, *others = chosen
    causes = causes_by(_SOURCES[first], volume[first], f"{path}.{_SPELLED.get(first, first)}")
    for way in others:
        where = f"{path}.{_SPELLED_TWICE.get(way, way)}"
        causes.append(forbidden_field(where, "may not specify more than 1 volume type"))
    return causes


def mount_causes(container: Json, path: str, volumes: dict[str, Json]) -> list[Cause]:
    causes: list[Cause] = []
    points: set[str] = set()
    devices = sequence(container, "volumeDevices")
    for index, mount in enumerate(sequence(container, "volumeMounts")):
        where = f"{path}.volumeMounts[{index}]"
        name, point = mount.get("name") or "", mount.get("mountPath") or ""
        causes += emptiness_causes(mount, where, "name")
        if name not in volumes:
            causes.append(Cause(f"{where}.name", f'Not found: "{name}"', "FieldValueNotFound"))
        causes += emptiness_causes(mount, where, "mountPath")
        # Of two volumes at one place the second would hide the first.
        if point in points:
            causes.append(invalid(f"{where}.mountPath", point, "must be unique"))
        points.add(point)
        for field, value, words in (("name", name, ""), ("mountPath", point, " as a path")):
            own = "name" if field == "name" else "devicePath"
            if any(device.get(own, "") == value for device in devices):
                text = f"must not already exist{words} in volumeDevices"
                causes.append(invalid(f"{where}.{field}", value, text))
        for field in ("subPath", "subPathExpr"):
            causes += descending_path(mount.get(field) or "", f"{path}.volumeMounts.{field}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            text = "subPathExpr and subPath are mutually exclusive"
            causes.append(invalid(f"{where}.subPathExpr", mount["subPathExpr"], text))
        causes += choice("mountPropagation", *_PROPAGATIONS)(mount, f"{path}.volumeMounts")
        causes += _read_only_causes(mount, f"{path}.volumeMounts.recursiveReadOnly")
    return causes


def _read_only_causes(mount: Json, path: str) -> list[Cause]:
    """Faults of a mount that is to be read-only with all that is mounted below it."""
    recursive = mount.get("recursiveReadOnly")
    if recursive not in (None, *_READ_ONLY):
        return [not_supported(path, recursive, list(_READ_ONLY))]
    causes = []
    if recursive in _READ_ONLY[1:] and not mount.get("readOnly"):
        causes.append(forbidden_field(path, "may only be specified when readOnly is true"))
    if recursive in _READ_ONLY[1:] and mount.get("mountPropagation") not in (None, "None"):
        text = "may only be specified when mountPropagation is None or not specified"
        causes.append(forbidden_field(path, text))
    return causes
