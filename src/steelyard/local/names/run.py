"""Keeps names and ClusterIPs in step with the Services: `service.run_kubernetes` runs it beside the controllers."""

import asyncio
import logging
from pathlib import Path

from steelyard.kube.resource import ENDPOINT_SLICES, SERVICES, Json, Resource
from steelyard.local.controllers.caches import Caches
from steelyard.local.names.forward import Forwarders
from steelyard.local.names.hosts import HostsFile, fixed_lines
from steelyard.local.names.table import table

_log = logging.getLogger(__name__)


async def run_names(caches: Caches, hosts: Path, *, stop: asyncio.Event) -> None:
    """Until `stop`; the hosts file stays as it is then, for the Pods that live on."""
    changed = asyncio.Event()

    def heard(resource: Resource, old: Json | None, new: Json | None) -> None:
        if resource in (SERVICES, ENDPOINT_SLICES):
            changed.set()

    caches.listen(heard)
    file, forwarders = HostsFile(hosts, fixed_lines()), Forwarders(_log.warning)
    stopping = asyncio.create_task(stop.wait())
    try:
        await caches.synced()
        changed.set()
        while not stop.is_set():
            waiting = asyncio.create_task(changed.wait())
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            changed.clear()
            now = table(caches.all(SERVICES), caches.all(ENDPOINT_SLICES))
            file.show(now.entries, asyncio.get_running_loop().time())
            await forwarders.apply(now.forwards)
    finally:
        stopping.cancel()
        await forwarders.close()
        file.close()
