"""Keeps names and ClusterIPs in step with the Services: `service.run_kubernetes` runs it beside the controllers."""

import asyncio
import logging
from pathlib import Path

from steelyard.disk_space import LOOK_SECONDS, no_room
from steelyard.kube.resource import ENDPOINT_SLICES, PODS, SERVICES, Resource
from steelyard.local.controllers.caches import Caches
from steelyard.local.faults import Faults
from steelyard.local.names.folder import folder_of, namespace_file
from steelyard.local.names.forward import Forwarders
from steelyard.local.names.hosts import HostsFile, fixed_lines
from steelyard.local.names.shown import Shown
from steelyard.local.names.table import Table, address_of, is_readable, table
from steelyard.types import Json

_log = logging.getLogger(__name__)


class HostsFiles:
    """The shared hosts file, with full names alone, and one for each namespace that has Pods."""

    def __init__(self, shared: Path) -> None:
        self._path, self._fixed = shared, fixed_lines()
        self._shared = HostsFile(shared, self._fixed)
        self._namespaces: dict[str, HostsFile] = {}

    def forget_others(self, namespaces: set[str]) -> None:
        """Drop the files of namespaces without Pods that an earlier run has left."""
        for path in folder_of(self._path).glob("*"):
            if path.name not in namespaces and not path.name.startswith("."):  # the kubelet is making one
                path.unlink()

    def show(self, names: Table, namespaces: set[str], now: float) -> None:
        self._shared.show(names.entries, now)
        for namespace in namespaces - self._namespaces.keys():
            self._namespaces[namespace] = HostsFile(namespace_file(self._path, namespace), self._fixed)
        for namespace, file in self._namespaces.items():
            file.show((*names.entries, *names.own.get(namespace, ())), now)

    def close(self) -> None:
        for file in (self._shared, *self._namespaces.values()):
            file.close()


def _says(resource: Resource, obj: Json | None) -> object:
    """Return the part of an object that names depend on."""
    if obj is None or resource != PODS:
        return obj
    return address_of(obj), obj["metadata"]["uid"]


async def run_names(
    caches: Caches,
    hosts: Path,
    *,
    stop: asyncio.Event,
    shown: Shown | None = None,
    faults: Faults | None = None,
) -> None:
    """Write the hosts files until `stop`; they stay as they are then, for the Pods that live on. `shown` gets
    every change.
    """
    changed = asyncio.Event()

    def heard(resource: Resource, old: Json | None, new: Json | None) -> None:
        if resource in (SERVICES, ENDPOINT_SLICES, PODS) and _says(resource, old) != _says(resource, new):
            changed.set()

    caches.listen(heard)
    files, forwarders = HostsFiles(hosts), Forwarders(_log.warning)
    stopping = asyncio.create_task(stop.wait())
    try:
        await caches.synced()
        files.forget_others(_namespaces(caches))
        changed.set()
        while not stop.is_set():
            waiting = asyncio.create_task(changed.wait())
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            changed.clear()
            pods, now = _table(caches, faults or Faults())
            try:
                files.show(now, _namespaces(caches), asyncio.get_running_loop().time())
            except OSError as error:
                if not no_room(error):
                    raise
                _log.warning("names wait for room on the disk: %s", error)
                changed.set()
                await asyncio.sleep(LOOK_SECONDS)
                continue
            if shown is not None:
                shown.publish(frozenset(filter(None, map(address_of, pods))))
            await forwarders.apply(now.forwards)
    finally:
        stopping.cancel()
        await forwarders.close()
        files.close()


def _table(caches: Caches, faults: Faults) -> tuple[list[Json], Table]:
    """The Pods, and what all means; without the objects that mean nothing, which must not take the others' names."""
    objects = [(kind, list(caches.all(kind))) for kind in (SERVICES, ENDPOINT_SLICES, PODS)]
    try:
        services, slices, pods = (listed for _, listed in objects)
        return pods, table(services, slices, pods)
    except Exception:  # noqa: BLE001 - one object's, which is looked for below
        _log.exception("some object has no names")
    kept = []
    for kind, listed in objects:
        kept.append([obj for obj in listed if is_readable(obj)])
        for _ in range(len(listed) - len(kept[-1])):
            faults.count("names", kind.kind)
    services, slices, pods = kept
    return pods, table(services, slices, pods)


def _namespaces(caches: Caches) -> set[str]:
    return {pod["metadata"]["namespace"] for pod in caches.all(PODS)}
