"""Runs the battery on one server."""

import asyncio
import inspect
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from steelyard.local.detached import UpOptions, start_detached, stop
from steelyard.local.state import StateDir
from steelyard_common.types import Json
from tests.kubernetes_api.api import Api
from tests.kubernetes_workloads.cases import callers, claims, content, jobs, pods, services
from tests.kubernetes_workloads.cluster import Cluster

Case = Callable[[Cluster], Awaitable[Json]]
MODULES = (pods, content, claims, callers, jobs, services)
AT_ONCE = 12


def cases(pattern: str = "*") -> dict[str, Case]:
    """All cases by name, `module: its words`."""
    named: dict[str, Case] = {}
    for module in MODULES:
        kind = module.__name__.rpartition(".")[2]
        for name, function in vars(module).items():
            own = inspect.iscoroutinefunction(function) and function.__module__ == module.__name__
            if own and function.__annotations__ == {"cluster": Cluster, "return": Json}:
                named[f"{kind}: {name.strip('_').replace('_', ' ')}"] = function
    return {name: case for name, case in named.items() if fnmatchcase(name, pattern)}


def observations(
    kubeconfig: Path, kubectl: str, chosen: dict[str, Case], at_once: int = AT_ONCE
) -> dict[str, Json]:
    """Observations of each case; `failure` with the last lines of its traceback where it could not be seen."""

    async def all_of_them() -> dict[str, Json]:
        gate = asyncio.Semaphore(at_once)
        async with asyncio.TaskGroup() as group:
            tasks = {
                name: group.create_task(_observed(kubeconfig, kubectl, case, gate))
                for name, case in chosen.items()
            }
        return {name: task.result() for name, task in tasks.items()}

    return asyncio.run(all_of_them())


async def _observed(kubeconfig: Path, kubectl: str, case: Case, gate: asyncio.Semaphore) -> Json:
    async with gate:
        api = Api(kubeconfig)
        cluster = Cluster(api, kubeconfig, kubectl)
        try:
            await cluster.open()
            return await case(cluster)
        except (AssertionError, TimeoutError, OSError, LookupError, ValueError) as error:
            return {"failure": f"{error!r:.600} {traceback.format_exc(limit=-2)[-600:]}"}
        finally:
            await cluster.close()
            await api.close()


@contextmanager
def embedded() -> Iterator[Path]:
    """The kubeconfig of an embedded Kubernetes whose images are this machine's programs."""
    with tempfile.TemporaryDirectory(prefix="steelyard-workloads-") as folder:
        state = StateDir(Path(folder) / "state")
        start_detached(state.path, UpOptions(without=("platform",)))
        try:
            with state.images.open("a") as images:
                for name in ("busybox", "python"):
                    images.write(f'\n["localhost/{name}"]\npython = "{sys.executable}"\n')
            yield state.kubeconfig
        finally:
            stop(state.path)
