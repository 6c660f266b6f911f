"""Launch of a container: a Pod's manifest becomes the intent that a shim carries out, with environment,
volumes and view of the file system.
"""

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from steelyard_common.types import Json, sequence
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import NotFound
from steelyard_kube.objects import read_status
from steelyard_kube.resource import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICES
from steelyard_local_kubernetes import pod_traits
from steelyard_local_kubernetes.gpus.gpus import Gpus
from steelyard_local_kubernetes.kubelet import images, service_links, shim, tokens, volumes
from steelyard_local_kubernetes.kubelet.abilities import Abilities
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.env import (
    ConfigMissing,
    Facts,
    Objects,
    Room,
    VolumeMissing,
    environment,
    expand_text,
    has_secret_variables,
    references,
    references_of_volumes,
)
from steelyard_local_kubernetes.kubelet.records import PodFolder, Sandbox
from steelyard_local_kubernetes.kubelet.splice import Mount, rewrite
from steelyard_local_kubernetes.names.folder import file_name, hosts_folder, namespace_file
from steelyard_schema.object_names import name_faults

HOST_IP = "127.0.0.1"
MARKER = "STEELYARD_CONTAINER"


def marker(base: Path) -> str:
    """The variable by which processes of a run are known when their shim is gone."""
    return f"{MARKER}={base.absolute()}"


async def fetch_objects(cluster: Cluster, pod: Json) -> Objects:
    """The ConfigMaps and Secrets that the Pod names, as they are now, and new tokens."""
    objects = await _fetch(cluster, pod, references(pod))
    await ensure_bound(cluster, pod)
    for _, source in volumes.token_sources(pod):
        with suppress(NotFound):  # the account is not there; the container waits for it
            objects[volumes.token_key(source)] = {"token": await tokens.issue(cluster, pod, source)}
    return objects


async def fetch_volume_objects(cluster: Cluster, pod: Json, folder: PodFolder) -> Objects:
    """The ConfigMaps and Secrets that the Pod's volumes show, as they are now, and the tokens that it has."""
    objects = await _fetch(cluster, pod, set(references_of_volumes(pod["spec"])))
    return {**objects, **_present_tokens(pod, folder)}


def _present_tokens(pod: Json, folder: PodFolder) -> Objects:
    """The tokens that the Pod has: they are renewed in their own time."""
    tokens_by_key: dict[tuple[str, str], Json | None] = {}
    for volume, source in volumes.token_sources(pod):
        with suppress(FileNotFoundError):
            token = (folder.volume(pod, volume["name"]) / source["path"]).read_text()
            tokens_by_key[volumes.token_key(source)] = {"token": token}
    return tokens_by_key


async def _fetch(
    cluster: Cluster, pod: Json, names: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Json | None]:
    namespace = pod["metadata"]["namespace"]
    objects: dict[tuple[str, str], Json | None] = {}
    for kind, name in names:
        try:
            objects[kind, name] = await cluster.get(
                CONFIG_MAPS if kind == "ConfigMap" else SECRETS, name, namespace
            )
        except NotFound:
            objects[kind, name] = None
    return objects


async def ensure_bound(cluster: Cluster, pod: Json) -> None:
    """Raise VolumeMissing for a claim that cannot be there, and for one that is there and not bound.

    A claim without an object is a folder as well.
    """
    for volume in sequence(pod["spec"], "volumes"):
        if "persistentVolumeClaim" not in volume:
            continue
        name = volume["persistentVolumeClaim"]["claimName"]
        # The API takes any name, and this one becomes a path: "data/sub" would be a part of the claim "data".
        if any(name_faults(name)):
            raise VolumeMissing(f"persistentvolumeclaim {name!r} is not found: no claim can have this name")
        try:
            claim = await cluster.get(PERSISTENT_VOLUME_CLAIMS, name, pod["metadata"]["namespace"])
        except NotFound:
            continue
        if read_status(claim).get("phase") != "Bound":
            raise VolumeMissing(f"persistentvolumeclaim {name!r} is not bound")


def _argv(
    container: Json, image: images.Image, env: Mapping[str, str], moved: Mapping[str, str], room: Room
) -> list[str]:
    def read_texts(key: str) -> list[str]:
        texts = enumerate(sequence(container, key))
        return [rewrite(expand_text(f"{key}[{index}]", text, env, room), moved) for index, text in texts]

    argv = image.argv({"command": read_texts("command"), "args": read_texts("args")})
    if not argv:
        raise images.ImageMissing(
            f"container {container['name']!r} has no command, and images.toml gives none for {image.name!r}"
        )
    return argv


def _visible_paths(config: KubeletConfig, image: images.Image) -> list[str]:
    """Return the paths that a container sees whatever is mounted: our files, and its interpreter with its
    code. The shim adds those of our own code and interpreter.
    """
    own = [*_own_paths(config.pods, config.hosts, config.keep)]
    if image.python and not image.is_own:
        own += [_environment(image.python), _environment(os.path.realpath(image.python))]
    return own


@lru_cache(4)
def _own_paths(pods: Path, hosts: Path, keep: tuple[Path, ...]) -> tuple[str, ...]:
    own = [pods.parent, hosts, hosts_folder(hosts), *keep]
    return tuple(str(path.absolute()) for path in own)


def write_profile(home: Path, path: str, scratch: Path) -> None:
    """Give login shells, such as `bash -lc`, the container's PATH: the machine's /etc/profile sets another one.

    `path` is empty for Steelyard's own Python, which only the shim knows. A profile that is there is the user's: so it
    is whole before it has this name. It is made at `scratch`, where no container writes.
    """
    profile = home / ".profile"
    if os.path.lexists(profile):
        return
    value = shlex.quote(path) if path else f'"${{{shim.OWN_PYTHON}%/*}}:{shim.PROGRAMS}"'
    scratch.write_text(f"export PATH={value}\n", encoding="utf-8")
    scratch.rename(profile)


@lru_cache(64)
def _environment(python: str) -> str:
    """Return the folder of an interpreter's environment."""
    return str(Path(python).parent.parent.absolute())


class RunPreparer:
    """Prepares the runs of one Pod; everything here may be done again after a crash."""

    def __init__(self, config: KubeletConfig, folder: PodFolder, can: Abilities, gpus: Gpus) -> None:
        self.config, self.folder, self.can, self.gpus = config, folder, can, gpus

    def prepare(self, pod: Json, container: Json, sandbox: Sandbox, objects: Objects, attempt: int) -> Path:
        """Write the intent to run a container.

        Raises ImageMissing, ConfigMissing, VolumeMissing, TooLarge or Unsupported.
        """
        facts = Facts(sandbox.ip, HOST_IP, self.config.node, self.config.allocatable())
        folders = self._volumes(pod, facts, objects)
        image = self.config.images(container["image"])
        of_services = (obj for (kind, _), obj in objects.items() if kind == SERVICES.kind and obj is not None)
        room = Room()
        links = {
            **service_links.variables(of_services, room),
            **service_links.variables_of_api(self.config.api),
        }
        env = environment(container, pod, facts, objects, links, room)
        base = self.folder.base(container["name"], attempt).absolute()
        home, root = base.parent / "home", base.parent / "root"
        home.mkdir(parents=True, exist_ok=True)
        root.mkdir(exist_ok=True)
        mounts = self._mounts(container, pod, folders, base, env)
        moved = {} if self.can.mounts else {mount.target: mount.source for mount in mounts}
        intent: Json = {
            "argv": _argv(container, image, {**links, **env}, moved, room),
            "env": {
                **self._base_env(pod, image, home),
                **links,
                **{name: rewrite(value, moved) for name, value in env.items()},
                # After the manifest's: one that names GPUs itself would take those of others.
                **self.gpus.variables(pod, container),
                **({shim.MOUNTS: json.dumps(moved)} if moved else {}),
                # Last: a manifest that sets the variable itself cannot hide what a killed shim leaves behind.
                MARKER: str(base),
            },
            "cwd": rewrite(container.get("workingDir") or "", moved) or str(home),
            "messagePolicy": container.get("terminationMessagePolicy", "File"),
            "scratch": str(root),
            "lease": str(self.config.lease.absolute()),
            "leaseSeconds": self.config.lease_seconds,
            "keep": _visible_paths(self.config, image),
            "ownPython": image.is_own,
            "mounts": [vars(mount) for mount in mounts] if self.can.mounts else None,
            "hostname": pod_traits.host_name(pod),
            "address": sandbox.ip if pod_traits.binds_are_its_own(pod, available=self.can.binds) else "",
            "stdin": ("once" if container.get("stdinOnce") else "open") if container.get("stdin") else "",
            "tty": bool(container.get("tty")),
            "pids": pod_traits.numbers_are_its_own(pod, available=self.can.pids),
            "holdsSecrets": has_secret_variables(container),
        }
        write_profile(home, intent["env"].get("PATH", ""), base.with_suffix(".profile"))
        path = base.with_suffix(".json")
        shim.write_whole(str(path), intent)
        return path

    def _base_env(self, pod: Json, image: images.Image, home: Path) -> dict[str, str]:
        return {
            **({} if image.is_own else {"PATH": image.path()}),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "HOSTNAME": pod_traits.host_name(pod) or os.uname().nodename,
            "PYTHONUNBUFFERED": "1",
            "STEELYARD_HOSTS": str(self._hosts(pod)),
            **image.variables,
        }

    def _volumes(self, pod: Json, facts: Facts, objects: Objects) -> dict[str, Path]:
        """Return the folders of the Pod's volumes by name. Raises VolumeMissing."""
        folders, room = {}, Room(volumes.SHOWN_BYTES)
        for volume in sequence(pod["spec"], "volumes"):
            try:
                folders[volume["name"]] = self._volume(volume, pod, facts, objects, room)
            except ConfigMissing as problem:
                text = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {problem}'
                raise VolumeMissing(text) from problem
        return folders

    def _volume(self, volume: Json, pod: Json, facts: Facts, objects: Objects, room: Room) -> Path:
        if volumes.volume_kind(volume) == "persistentVolumeClaim":
            return volumes.claim_folder(self.config.claims / pod["metadata"]["namespace"], volume)
        folder = self.folder.volume(pod, volume["name"])
        if volumes.is_shown(volume) and folder.exists():
            # A container that starts again sees what there is now.
            now = {**objects, **_present_tokens(pod, self.folder)}
            volumes.refresh(volume, volumes.volume_files(volume, pod, facts, now, room), folder)
            return folder
        if not volumes.is_shown(volume):
            return volumes.make(volume, {}, folder)
        return volumes.make(volume, volumes.volume_files(volume, pod, facts, objects, room), folder)

    def refresh(self, pod: Json, sandbox: Sandbox, objects: Objects) -> None:
        """Bring the volumes that show objects up to date. Raises ConfigMissing where a required object is gone."""
        facts = Facts(sandbox.ip, HOST_IP, self.config.node, self.config.allocatable())
        room = Room(volumes.SHOWN_BYTES)
        for volume in sequence(pod["spec"], "volumes"):
            folder = self.folder.volume(pod, volume["name"])
            if volumes.is_shown(volume) and folder.exists():
                volumes.refresh(volume, volumes.volume_files(volume, pod, facts, objects, room), folder)

    def _mounts(
        self, container: Json, pod: Json, folders: Mapping[str, Path], base: Path, env: Mapping[str, str]
    ) -> list[Mount]:
        """Return the mounts: volumes, and files of last words, of its host name and of the names of Services."""
        message = base.with_suffix(".termination").absolute()
        # The container sees this one file by a bind mount, which needs it to be there.
        message.touch()
        target = os.path.normpath(container.get("terminationMessagePath") or "/dev/termination-log")
        mounted = volumes.mounts(
            container, pod, {name: path.absolute() for name, path in folders.items()}, env
        )
        mounted.append(Mount(str(message), target))
        if self.config.hosts.exists() and not any(mount.target == "/etc/hosts" for mount in mounted):
            # A link: the file is replaced whenever a name changes, and a
            # bind mount would show the old one for ever.
            mounted.append(Mount(str(self._hosts(pod)), "/etc/hosts", link=True))
        own = pod_traits.host_name(pod)
        if own and self.can.mounts and not any(mount.target == "/etc/hostname" for mount in mounted):
            path = base.parent / "hostname"
            path.write_text(f"{own}\n")
            mounted.append(Mount(str(path), "/etc/hostname"))
        return mounted

    def _hosts(self, pod: Json) -> Path:
        """The hosts file of the Pod's namespace, or its own."""
        return namespace_file(self.config.hosts, file_name(pod)).absolute()
