"""The embedded API server with its controllers, as a real control plane has them, in a thread of its own."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from steelyard_common.types import Json
from steelyard_kube.client import connect
from steelyard_kube.resource import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from steelyard_local_kubernetes.apiserver import pki
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.controllers.caches import BUILT_IN, Caches, Listener
from steelyard_local_kubernetes.controllers.garbage.run import run_garbage_collector
from steelyard_local_kubernetes.controllers.run import run_controllers
from steelyard_local_kubernetes.faults import Faults

TOKEN = "a token of tests"


@contextmanager
def embedded_server(*, provisioner: bool = True, collects_garbage: bool = True) -> Iterator[Path]:
    """Yields the administrator's kubeconfig. `provisioner`: claims get volumes. `collects_garbage`: the server does
    it within itself, else the controller that works on any server."""
    with tempfile.TemporaryDirectory(prefix="steelyard-embedded-") as name:
        caches = Caches if provisioner else _WithoutProvisioner
        server = _Server(Path(name), caches, collects_garbage=collects_garbage)
        try:
            yield server.kubeconfig
        finally:
            server.stop()


class _WithoutProvisioner(Caches):
    """Caches whose controllers hear of no claim: the real server has nothing that would give one a volume."""

    def listen(self, listener: Listener) -> None:
        def heard(resource: Resource, old: Json | None, new: Json | None) -> None:
            if resource not in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES):
                listener(resource, old, new)

        super().listen(heard)


class _Server:
    def __init__(self, folder: Path, caches: type[Caches], *, collects_garbage: bool) -> None:
        self._caches, self._collects_garbage = caches, collects_garbage
        self._folder, self.kubeconfig = folder, folder / "kubeconfig"
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60), "the embedded server does not start"

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        folder = self._folder
        config = ApiServerConfig(
            folder / "kubernetes.db",
            folder / "pki",
            {TOKEN: "tester"},
            folder / "pods",
            service_network="10.96.0.0/16",  # as the real server's: refusals name it
            collects_garbage=self._collects_garbage,
        )
        async with serve(config) as server:
            self.kubeconfig.write_text(yaml.safe_dump(pki.kubeconfig(server.url, server.ca, TOKEN)))
            cluster = await connect(self.kubeconfig)
            caches = self._caches(cluster, Faults(), BUILT_IN)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(caches.run(self._stop))
                parts.create_task(run_controllers(cluster, caches, stop=self._stop))
                if not self._collects_garbage:
                    parts.create_task(run_garbage_collector(cluster, stop=self._stop))
                await caches.wait_for_sync()
                self._ready.set()
            await cluster.close()

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
