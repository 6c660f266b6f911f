"""Lifecycle hooks of one Pod's containers: `postStart` once a container runs, `preStop` before it is asked to end.

As on a cluster a hook runs at least once: a kubelet that dies during one runs it again. The end of a hook after a start
is recorded next to the run (`<n>.poststart`).
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from steelyard_common.types import Json, mapping
from steelyard_local_kubernetes.kubelet import probes
from steelyard_local_kubernetes.kubelet.containers import Containers
from steelyard_local_kubernetes.kubelet.probes import Target
from steelyard_local_kubernetes.kubelet.records import PodFolder, Run

SHORTEST_GRACE = 2.0  # seconds between the end of a preStop hook and SIGKILL, however long the hook took
Report = Callable[[str, str], None]  # reason and message of a warning
RunKey = tuple[str, int]  # container and attempt


class Hooks:
    """`started` says whose hook after the start is done; `end` asks a container to end, its hook first."""

    def __init__(
        self,
        folder: PodFolder,
        python: str,
        containers: Containers,
        on_change: Callable[[], None],
        report: Report,
    ) -> None:
        self._folder, self._python, self._containers = folder, python, containers
        self._on_change, self._report = on_change, report
        self._tasks: dict[RunKey, asyncio.Task[None]] = {}
        self._ending: dict[RunKey, asyncio.Task[None]] = {}

    def started(self, container: Json, run: Run, ip: str, grace: float) -> bool:
        """Return whether the container's postStart hook is done; begin it where it is not."""
        action = mapping(container, "lifecycle", "postStart")
        key = (container["name"], run.attempt)
        if not action or self._mark_file(*key).exists():
            return True
        if key not in self._tasks and key not in self._ending:
            target = probes.probe_target(self._folder, self._python, container, run, ip)
            self._tasks[key] = asyncio.create_task(self._post_start(key, action, target, grace))
        return False

    def _mark_file(self, name: str, attempt: int) -> Path:
        return self._folder.base(name, attempt).with_suffix(".poststart")

    async def _post_start(self, key: RunKey, action: Json, target: Target, grace: float) -> None:
        if await perform(action, target):
            self._mark_file(*key).touch()
        else:
            self._report("FailedPostStartHook", f"PostStartHook failed in container {key[0]}")
            self._containers.stop(key[0], grace)
        self._on_change()

    def end(self, container: Json, run: Run, ip: str, grace: float) -> bool:
        """Ask a running container to end: its preStop hook, then SIGTERM, SIGKILL after `grace` seconds.

        False where that is under way.
        """
        key = (container["name"], run.attempt)
        if key in self._ending:
            return False
        if (starting := self._tasks.pop(key, None)) is not None:
            starting.cancel()
        target = probes.probe_target(self._folder, self._python, container, run, ip)
        action = mapping(container, "lifecycle", "preStop")
        self._ending[key] = asyncio.create_task(self._end(key[0], action, target, grace))
        return True

    async def _end(self, name: str, action: Json, target: Target, grace: float) -> None:
        loop = asyncio.get_running_loop()
        began, good = loop.time(), True
        if action:
            try:
                async with asyncio.timeout(grace):
                    good = await perform(action, target)
            except TimeoutError:
                good = False
        if not good:
            self._report("FailedPreStopHook", f"PreStopHook failed in container {name}")
        self._containers.stop(name, max(grace - (loop.time() - began), min(SHORTEST_GRACE, grace)))

    def close(self) -> None:
        for task in (*self._tasks.values(), *self._ending.values()):
            task.cancel()
        # It holds the Pod's worker, which holds these hooks: ended Pods would stay in memory until Python searches for
        # cycles, which it seldom does among many objects.
        self._report = _unheard


def _unheard(reason: str, message: str) -> None:
    """Report nothing."""


async def perform(action: Json, target: Target) -> bool:
    """Run a hook; whether it succeeded. An answer over HTTP is a success, whatever it says."""
    try:
        if "sleep" in action:
            await asyncio.sleep(float(action["sleep"]["seconds"]))
        elif "httpGet" in action:
            await probes.ask(action["httpGet"], target)
        else:
            return await probes.succeeds([*target.execute, *action["exec"]["command"]])
    except (OSError, ValueError, LookupError):
        return False
    return True
