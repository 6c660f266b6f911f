"""The embedded API server with its controllers, as a real control plane has them, in a thread of its own."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from steelyard.kube.client import connect
from steelyard.local.apiserver import pki
from steelyard.local.apiserver.server import ApiServerConfig, serve
from steelyard.local.controllers.caches import Caches
from steelyard.local.controllers.run import run_controllers
from steelyard.local.faults import Faults

TOKEN = "a token of tests"


@contextmanager
def embedded_server() -> Iterator[Path]:
    """Yields the administrator's kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="steelyard-embedded-") as name:
        server = _Server(Path(name))
        try:
            yield server.kubeconfig
        finally:
            server.stop()


class _Server:
    def __init__(self, folder: Path) -> None:
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
        config = ApiServerConfig(folder / "kubernetes.db", folder / "pki", {TOKEN: "tester"}, folder / "pods")
        async with serve(config) as server:
            self.kubeconfig.write_text(yaml.safe_dump(pki.kubeconfig(server.url, server.ca, TOKEN)))
            cluster = await connect(self.kubeconfig)
            caches = Caches(cluster, Faults())
            async with asyncio.TaskGroup() as parts:
                parts.create_task(caches.run(self._stop))
                parts.create_task(run_controllers(cluster, caches, stop=self._stop))
                await caches.synced()
                self._ready.set()
            await cluster.close()

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
