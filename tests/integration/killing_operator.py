"""An operator that dies by SIGKILL right after its Nth call of the API: `python -m … STATE N COUNT_FILE`.

Counted are the calls that do an Evaluation's work; those of the lease, of events and of the caches come when they
like. With N = 0 it never dies, and COUNT_FILE says how many calls there were.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from steelyard.local.identity import process_candidate
from steelyard.local.state import StateDir
from steelyard.operator.main import run_operator
from steelyard.operator.settings import OperatorSettings
from steelyard_kube.client import connect
from steelyard_kube.cluster import Cluster
from steelyard_kube.resource import EVENTS, LEASES, Resource

COUNTED = frozenset({"get", "create", "replace", "patch", "delete"})


class DyingCluster:
    """A cluster whose caller is killed once it has made `last` calls."""

    def __init__(self, real: Cluster, last: int, counted: Path) -> None:
        self._real = real
        self._last = last
        self._counted = counted
        self._calls = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        return partial(self._call, method) if name in COUNTED else method

    async def _call(
        self, method: Callable[..., Awaitable[Any]], resource: Resource, *rest: Any, **more: Any
    ) -> Any:
        answer = await method(resource, *rest, **more)
        if resource not in (EVENTS, LEASES):
            self._calls += 1
            self._counted.write_text(str(self._calls))
            if self._calls == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer


async def main(state: StateDir, last: int, counted: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    cluster = cast(Cluster, DyingCluster(await connect(state.kubeconfig), last, counted))
    settings = OperatorSettings(storage=f"file://{state.storage}")
    await run_operator(cluster, settings, candidate=process_candidate(), stop=stop)
    await cluster.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(StateDir(Path(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3])))
