"""A Pod's volumes as folders, made before its first container, and where each container sees them.

Those that show objects of the API are brought up to date while the Pod runs.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.kubelet import versions
from steelyard_local_kubernetes.kubelet.env import (
    ConfigMissing,
    Facts,
    Objects,
    Room,
    UnsupportedField,
    VolumeMissing,
    contents,
    field,
    resource_field,
    shorten_name,
)
from steelyard_local_kubernetes.kubelet.probes import PROBES
from steelyard_local_kubernetes.kubelet.records import OPEN
from steelyard_local_kubernetes.kubelet.splice import Mount
from steelyard_schema.variables import TooLarge, expand

_KINDS = ("emptyDir", "configMap", "secret", "hostPath", "downwardAPI", "persistentVolumeClaim", "projected")
_PROJECTED = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
_SHOWN = frozenset({"configMap", "secret", "downwardAPI", "projected"})  # made of what the API holds
_WRITABLE = frozenset({"emptyDir", "hostPath", "persistentVolumeClaim"})
SHOWN_BYTES = 32 << 20
"""Most bytes of the files that one Pod's volumes show of the API."""
PATH_BYTES = 4095  # the longest path that Linux takes
_HOST_TYPES = {
    "Directory": Path.is_dir,
    "File": Path.is_file,
    "Socket": Path.is_socket,
    "CharDevice": Path.is_char_device,
    "BlockDevice": Path.is_block_device,
}


def volume_kind(volume: Json) -> str:
    """Return the kind of a volume; Unsupported names the field."""
    kinds = [key for key in volume if key != "name"]
    # Kubernetes' default for a volume that names no source.
    if not kinds:
        return "emptyDir"
    parts = [key for part in sequence(mapping(volume, "projected"), "sources") for key in part]
    for kind in (kinds[0], *(part for part in parts if part not in _PROJECTED)):
        if kind not in _KINDS:
            raise UnsupportedField(f"volume {volume['name']!r}: {kind} is not implemented on one machine")
    return kinds[0]


def _choose_keys(source: Json, values: dict[str, bytes], what: str) -> dict[str, bytes]:
    """The files of a ConfigMap or Secret volume: all keys, or those of `items` at their paths."""
    items = source.get("items")
    if not items:
        return values
    missing = [item["key"] for item in items if item["key"] not in values]
    if missing and not source.get("optional"):
        raise ConfigMissing(f"references non-existent {what} key: {missing[0]}")
    return {item["path"]: values[item["key"]] for item in items if item["key"] in values}


def volume_files(
    volume: Json, pod: Json, facts: Facts, objects: Objects, room: Room | None = None
) -> dict[str, bytes]:
    """Return the files that a volume holds at its start, by relative path.

    Raises VolumeMissing as soon as they take more than `room` has.
    """
    room = room or Room(SHOWN_BYTES)
    kind = volume_kind(volume)
    try:
        return _files(kind, mapping(volume, kind), pod, facts, objects, room)
    except TooLarge as error:
        raise VolumeMissing(f"the volumes show more than {SHOWN_BYTES} bytes of the API: {error}") from error


def _files(
    kind: str, source: Json, pod: Json, facts: Facts, objects: Objects, room: Room
) -> dict[str, bytes]:
    if kind == "configMap":
        values = contents("ConfigMap", source["name"], objects, bool(source.get("optional")))
        return _take_room(_choose_keys(source, values or {}, "config"), room)
    if kind == "secret":
        values = contents("Secret", source["secretName"], objects, bool(source.get("optional")))
        return _take_room(_choose_keys(source, values or {}, "secret"), room)
    if kind == "downwardAPI":
        return _fields(source, pod, facts, room)
    files: dict[str, bytes] = {}
    for part in sequence(source, "sources"):
        files |= _source_files(part, pod, facts, objects, room)
    return files


def _take_room(files: dict[str, bytes], room: Room) -> dict[str, bytes]:
    """Return the files, whose bytes are taken from the room: an object that is shown at many paths is many files."""
    for path, content in files.items():
        room.take_bytes(f"file {shorten_name(path)}", len(content))
    return files


def _source_files(part: Json, pod: Json, facts: Facts, objects: Objects, room: Room) -> dict[str, bytes]:
    """Return the files of one source of a projected volume."""
    for field_name, kind, what in (("configMap", "ConfigMap", "config"), ("secret", "Secret", "secret")):
        if field_name in part:
            source = part[field_name]
            values = contents(kind, source["name"], objects, bool(source.get("optional")))
            return _take_room(_choose_keys(source, values or {}, what), room)
    if "downwardAPI" in part:
        return _fields(part["downwardAPI"], pod, facts, room)
    source = part["serviceAccountToken"]
    token = objects.get(token_key(source))
    if token is None:
        raise ConfigMissing(f"there is no token for {source['path']!r} yet")
    return {source["path"]: str(token["token"]).encode()}


def token_key(source: Json) -> tuple[str, str]:
    """Return the name under which `fetch_objects` puts the token of a projected volume."""
    return "Token", f"{source.get('audience') or ''} {source.get('expirationSeconds') or ''}"


def token_sources(pod: Json) -> list[tuple[Json, Json]]:
    """Return the volumes with tokens, each with a source of it."""
    return [
        (volume, part["serviceAccountToken"])
        for volume in sequence(pod["spec"], "volumes")
        for part in sequence(mapping(volume, "projected"), "sources")
        if "serviceAccountToken" in part
    ]


def _fields(source: Json, pod: Json, facts: Facts, room: Room) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for item in sequence(source, "items"):
        files |= _take_room({item["path"]: _field_text(item, pod, facts).encode()}, room)
    return files


def _field_text(item: Json, pod: Json, facts: Facts) -> str:
    """Return the content of one file of a downwardAPI volume."""
    if "fieldRef" in item:
        return field(item["fieldRef"]["fieldPath"], pod, facts)
    source = item["resourceFieldRef"]
    containers = {container["name"]: container for container in list_containers(pod["spec"])}
    return resource_field(source, containers[source["containerName"]], facts)


def _inside(folder: Path, relative: str) -> Path:
    return folder / _place(folder, relative)


def _place(folder: Path, relative: str) -> str:
    """A path relative to a folder in its shortest form. Raises Unsupported for one that leaves it."""
    root = os.path.normpath(folder)
    path, below = os.path.normpath(os.path.join(root, relative)), os.path.join(root, "")
    if path != root and not path.startswith(below):
        raise UnsupportedField(f"path {relative!r} leaves its volume")
    return path[len(below) :] or os.curdir


def make(volume: Json, files: Mapping[str, bytes], folder: Path) -> Path:
    """The volume's folder, whole or not at all; one that is there already stays as it is."""
    if volume_kind(volume) == "hostPath":
        return _host_path(volume["hostPath"])
    if folder.exists():
        return folder
    # Filled next to its final place and renamed: a kubelet that dies in between
    # leaves nothing that the next one takes for whole.
    making = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    if is_shown(volume):
        versions.make(making, _with_modes(volume, files, making))
    # Kubernetes opens an emptyDir to everybody, since containers of a Pod may run as different users.
    making.chmod(OPEN if volume_kind(volume) == "emptyDir" else 0o755)
    making.rename(folder)
    return folder


def is_shown(volume: Json) -> bool:
    """Return whether a volume shows what the API holds, and is brought up to date."""
    return volume_kind(volume) in _SHOWN


def holds_secrets(volume: Json) -> bool:
    """Return whether a volume has values of Secrets, or tokens."""
    parts = sequence(mapping(volume, "projected"), "sources")
    return "secret" in volume or any("secret" in part or "serviceAccountToken" in part for part in parts)


def shows_metadata(pod: Json) -> bool:
    """Return whether a volume of the Pod has its labels or annotations as files."""
    parts = [
        part
        for volume in sequence(pod["spec"], "volumes")
        for part in (volume, *sequence(mapping(volume, "projected"), "sources"))
    ]
    paths = [
        str(mapping(item, "fieldRef").get("fieldPath"))
        for part in parts
        for item in sequence(mapping(part, "downwardAPI"), "items")
    ]
    return any(path.startswith(("metadata.labels", "metadata.annotations")) for path in paths)


def refresh(volume: Json, files: Mapping[str, bytes], folder: Path) -> bool:
    """Bring a volume that exists up to date, all its files at once; tell whether it has changed."""
    return folder.exists() and versions.write(folder, _with_modes(volume, files, folder))


def _with_modes(volume: Json, files: Mapping[str, bytes], folder: Path) -> dict[str, versions.File]:
    source = volume[volume_kind(volume)]
    items = [*sequence(source, "items"), *_all_items(source)]
    own = {item["path"]: item["mode"] for item in items if item.get("mode") is not None}
    default = source.get("defaultMode", 0o644)
    return {
        _place(folder, relative): versions.File(data, int(own.get(relative, default)))
        for relative, data in files.items()
    }


def _all_items(source: Json) -> list[Json]:
    return [
        item
        for part in sequence(source, "sources")
        for one in part.values()
        for item in sequence(one, "items")
    ]


def _host_path(source: Json) -> Path:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind.endswith("OrCreate") and not path.exists():
        if kind == "FileOrCreate":
            path.touch()
        else:
            path.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        raise ConfigMissing(f"hostPath {str(path)!r} does not exist")
    if not _HOST_TYPES.get(kind.removesuffix("OrCreate"), Path.exists)(path):
        raise ConfigMissing(f"hostPath type check failed: {str(path)!r} is no {kind}")
    return path


def claim_folder(folder: Path, volume: Json) -> Path:
    """The folder of a claim: made at its first use, and kept when its Pods have gone."""
    path = _inside(folder, volume["persistentVolumeClaim"]["claimName"])
    path.mkdir(parents=True, exist_ok=True)
    return path


def mounts(container: Json, pod: Json, folders: Mapping[str, Path], env: Mapping[str, str]) -> list[Mount]:
    """Return which folder the container sees where; what the API holds is read-only."""
    kinds = {volume["name"]: volume_kind(volume) for volume in sequence(pod["spec"], "volumes")}
    mounted, room = [], Room()
    for mount in sequence(container, "volumeMounts"):
        if mount["name"] not in folders:
            raise UnsupportedField(f"volumeMount {mount['name']!r} names no volume of the Pod")
        writable = kinds[mount["name"]] in _WRITABLE and not mount.get("readOnly")
        source = folders[mount["name"]]
        if below := mount.get("subPath") or _expand_path(mount.get("subPathExpr") or "", env, room):
            source = _inside(source, below)
            # Kubernetes makes a folder that is missing, also where an optional object that would give a file is not
            # there; what is there may also be a file of the volume.
            if not source.exists():
                source.mkdir(parents=True, exist_ok=True)
        mounted.append(Mount(str(source), os.path.normpath(mount["mountPath"]), not writable))
    return mounted


def _expand_path(text: str, env: Mapping[str, str], room: Room) -> str:
    """Return a `subPathExpr` with its variables filled in. Raises TooLarge."""
    try:
        return room.take("subPathExpr", expand(text, env, PATH_BYTES))
    except TooLarge as error:
        raise TooLarge(f"volumeMounts: subPathExpr {shorten_name(text)} {error}") from None


def check(pod: Json) -> None:
    """Unsupported for what this kubelet will never start, found before anything is made."""
    spec = pod["spec"]
    for volume in sequence(spec, "volumes"):
        volume_kind(volume)
    for container in list_containers(spec):
        if container.get("volumeDevices"):
            text = f"container {container['name']!r}: volumeDevices is not implemented on one machine"
            raise UnsupportedField(text)
        for hook in ("postStart", "preStop"):
            if mapping(container, "lifecycle", hook).get("tcpSocket"):  # a cluster runs none either
                raise UnsupportedField(
                    f"container {container['name']!r}: {hook} by tcpSocket is not implemented"
                )
        for probe in PROBES:
            # Taken for a probe that fails, it would end a healthy container again and again.
            if mapping(container, probe).get("grpc"):
                text = f"{probe} by grpc is not implemented on one machine"
                raise UnsupportedField(f"container {container['name']!r}: {text}")
