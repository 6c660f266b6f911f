"""Our controllers on a server without controllers of its own for their kinds."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard_kube.client import connect
from steelyard_local_kubernetes.controllers.caches import BUILT_IN, Caches
from steelyard_local_kubernetes.controllers.garbage.run import run_garbage_collector
from steelyard_local_kubernetes.controllers.run import run_controllers


@contextmanager
def controllers(kubeconfig: Path) -> Iterator[None]:
    """Our controllers on a server, in a thread of their own."""
    synced, stopping, loops = threading.Event(), asyncio.Event(), []

    async def main() -> None:
        collecting = asyncio.Event()
        loops.append(asyncio.get_running_loop())
        cluster = await connect(kubeconfig)
        caches = Caches(cluster, resources=BUILT_IN)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(caches.run(stopping))
            parts.create_task(run_controllers(cluster, caches, stop=stopping))
            parts.create_task(run_garbage_collector(cluster, stop=stopping, synced=collecting.set))
            await caches.wait_for_sync()
            await collecting.wait()
            synced.set()
        await cluster.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert synced.wait(60), "our controllers do not start"
    yield
    loops[0].call_soon_threadsafe(stopping.set)
    thread.join(30)
