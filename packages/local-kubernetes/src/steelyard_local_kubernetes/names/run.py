"""Keeps names and ClusterIPs in step with the Services: `run.py` of the package runs it along with the controllers."""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from steelyard_common.disk_space import POLL_SECONDS, no_room
from steelyard_common.types import Json
from steelyard_kube.informer import object_key
from steelyard_kube.resource import ENDPOINT_SLICES, PODS, SERVICES, Resource
from steelyard_local_kubernetes.controllers.caches import Caches
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.names.datagrams import DatagramForwarders
from steelyard_local_kubernetes.names.folder import aliases, file_name, hosts_folder, namespace_file
from steelyard_local_kubernetes.names.forward import Forwarders
from steelyard_local_kubernetes.names.hosts import HostsFile, machine_lines
from steelyard_local_kubernetes.names.outside import OutsideNames
from steelyard_local_kubernetes.names.shown import PublishedNames
from steelyard_local_kubernetes.names.table import (
    Entry,
    Table,
    external_name,
    is_of_a_service,
    is_readable,
    pod_address,
    table,
)

_log = logging.getLogger(__name__)


class HostsFiles:
    """The shared hosts file, with full names alone, and one for each namespace that has Pods."""

    def __init__(self, shared: Path) -> None:
        self._path, self._fixed = shared, machine_lines()
        self._shared = HostsFile(shared, self._fixed)
        self._files: dict[str, HostsFile] = {}

    def forget_others(self, files: Collection[str]) -> None:
        """Drop the files of namespaces without Pods that an earlier run has left."""
        for path in hosts_folder(self._path).glob("*"):
            if path.name not in files and not path.name.startswith("."):  # the kubelet is making one
                path.unlink()

    def show(self, names: Table, files: Mapping[str, tuple[Entry, ...]], now: float) -> None:
        """Write the names; `files` has further lines by the name of a file."""
        self._shared.show(names.entries, now)
        for name in files.keys() - self._files.keys():
            self._files[name] = HostsFile(namespace_file(self._path, name), self._fixed)
        for name in [name for name in self._files.keys() - files.keys() if "@" in name]:
            self._files.pop(name).close()
            (hosts_folder(self._path) / name).unlink(missing_ok=True)
        for name, file in self._files.items():
            own = names.own.get(name.partition("@")[0], ())
            file.show((*names.entries, *own, *files.get(name, ())), now)

    def close(self) -> None:
        for file in (self._shared, *self._files.values()):
            file.close()


def _says(resource: Resource, obj: Json | None) -> object:
    """Return the part of an object that names depend on."""
    if obj is None or resource != PODS:
        return obj
    return pod_address(obj), obj["metadata"]["uid"]


async def run_names(
    caches: Caches,
    hosts: Path,
    *,
    stop: asyncio.Event,
    shown: PublishedNames | None = None,
    faults: Faults | None = None,
) -> None:
    """Write the hosts files until `stop`; they stay as they are then, for the Pods that live on. `shown` gets
    every change.
    """
    changed, addressed = asyncio.Event(), _AddressedPods()

    def on_change(resource: Resource, old: Json | None, new: Json | None) -> None:
        if resource == PODS:
            addressed.hear(old, new)
        if resource in (SERVICES, ENDPOINT_SLICES, PODS) and _says(resource, old) != _says(resource, new):
            changed.set()

    caches.listen(on_change)
    files, forwarders = HostsFiles(hosts), Forwarders(_log.warning, changed.set)
    datagrams, outside = DatagramForwarders(_log.warning, changed.set), OutsideNames(changed.set)
    stopping = asyncio.create_task(stop.wait())
    try:
        await caches.wait_for_sync()
        addressed.begin(caches.all(PODS))
        files.forget_others(addressed.files())
        changed.set()
        while not stop.is_set():
            waiting = asyncio.create_task(changed.wait())
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            changed.clear()
            pods, now = _table(caches, addressed.pods(), faults or Faults(), outside)
            try:
                files.show(now, addressed.files(), asyncio.get_running_loop().time())
            except OSError as error:
                if not no_room(error):
                    raise
                _log.warning("names wait for room on the disk: %s", error)
                changed.set()
                await asyncio.sleep(POLL_SECONDS)
                continue
            if shown is not None:
                shown.publish(frozenset(filter(None, map(pod_address, pods))))
            await forwarders.apply(now.forwards, now.affinity, now.spare)
            await datagrams.apply(now.datagrams, now.affinity)
    finally:
        stopping.cancel()
        await forwarders.close()
        datagrams.close()
        await outside.close()
        files.close()


class _AddressedPods:
    """The Pods that have an address, and the hosts files that Pods read, with the lines that only one of them has.

    Ended Pods, which may be thousands, have no names: a change of another Pod does not read them.
    """

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], Json] = {}
        self._readers: Counter[str] = Counter()
        self._files: dict[str, tuple[Entry, ...]] = {}

    def begin(self, pods: Iterable[Json]) -> None:
        self._pods.clear()
        self._readers.clear()
        self._files.clear()
        for pod in pods:
            self.hear(None, pod)

    def hear(self, old: Json | None, new: Json | None) -> None:
        # The new state first: a file whose only reader changes must not be without a reader in between.
        if new is not None:
            self._readers[file_name(new)] += 1
            self._files[file_name(new)] = tuple(aliases(new))
        if old is not None:
            self._pods.pop(object_key(old), None)
            self._readers[file_name(old)] -= 1
            if self._readers[file_name(old)] <= 0:
                del self._readers[file_name(old)]
                self._files.pop(file_name(old), None)
        if new is not None and _may_have_address(new):
            self._pods[object_key(new)] = new

    def pods(self) -> list[Json]:
        return list(self._pods.values())

    def files(self) -> dict[str, tuple[Entry, ...]]:
        return dict(self._files)


def _may_have_address(pod: Json) -> bool:
    try:
        return pod_address(pod) is not None
    except Exception:  # noqa: BLE001 - whatever it holds; who makes the table says so
        return True


def _table(
    caches: Caches, pods: list[Json], faults: Faults, outside: OutsideNames
) -> tuple[list[Json], Table]:
    """The Pods, and what all means; without the objects that mean nothing, which must not take the others' names."""
    objects = [(kind, list(caches.all(kind))) for kind in (SERVICES, ENDPOINT_SLICES)] + [(PODS, pods)]
    try:
        services, slices, pods = (listed for _, listed in objects)
        others = filter(None, map(external_name, services))
        outside.follow(name for name in others if not is_of_a_service(name))
        return pods, table(services, slices, pods, outside.addresses)
    except Exception:  # noqa: BLE001 - one object's, which is looked for below
        _log.exception("some object has no names")
    kept = []
    for kind, listed in objects:
        kept.append([obj for obj in listed if is_readable(obj)])
        for _ in range(len(listed) - len(kept[-1])):
            faults.count("names", kind.kind)
    services, slices, pods = kept
    return pods, table(services, slices, pods, outside.addresses)
