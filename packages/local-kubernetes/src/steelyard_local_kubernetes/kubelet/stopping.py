"""`steelyard down`: ends every Pod's processes by the shims' records alone, without API and kubelet."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from steelyard_common import processes
from steelyard_common.disk_space import no_room
from steelyard_local_kubernetes.kubelet import records, shim_processes
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.preparation import marker
from steelyard_local_kubernetes.kubelet.records import Failure, PodFolder, Run

SHUTDOWN = Failure(
    "NodeShutdown", "The Pod was ended because the machine's Kubernetes was stopped.", disruption=True
)


def _open_runs(config: KubeletConfig) -> Iterator[tuple[PodFolder, str, Run]]:
    """Every run that has not ended, or whose shim was killed."""
    for path in config.pods.iterdir() if config.pods.exists() else ():
        folder = PodFolder(path)
        for container in folder.containers() if path.is_dir() else ():
            run = folder.run(container)
            if run is not None and (run.state != "exited" or run.reason == records.LOST):
                yield folder, container, run


def _send(run: Run, number: signal.Signals) -> None:
    """A signal to the run's shim, unless its pid is another's by now."""
    child = shim_processes.open_process(run.shim, run.shim_start)
    if child is not None:
        signal.pidfd_send_signal(child, number)
        os.close(child)


def _end(folder: PodFolder, container: str, run: Run) -> None:
    """Ask a run to end; one that has not begun will not. On a full disk nothing says why it ended."""
    # The shim lives on for a moment after it has recorded the end. The Pod goes on after the next start: a disruption
    # would fail it.
    if folder.has_recorded_end(container, run.attempt):
        return
    try:
        # Before the signal: the next kubelet reports a disruption, and not that the program failed by itself.
        folder.fail(SHUTDOWN)
        if run.state == "intended":
            records.cancel(folder.base(container, run.attempt), "Cancelled", SHUTDOWN.message)
    except OSError as error:
        if not no_room(error):
            raise
    _send(run, signal.SIGTERM)


async def stop_all_pods(config: KubeletConfig, *, grace: float = 5.0) -> None:
    """SIGTERM to every container, SIGKILL to what is left after `grace` seconds; returns when nothing runs, and no
    volume or intent holds a value of a Secret any more.
    """
    for folder, container, run in list(_open_runs(config)):
        if run.reason == records.LOST:
            await shim_processes.end_strays(marker(folder.base(container, run.attempt)), 5.0)
            continue
        with contextlib.suppress(FileNotFoundError):  # the kubelet was removing the folder of an ended Pod
            _end(folder, container, run)
    # SIGUSR2 makes a shim kill its container's tree; its own death would leave the tree behind.
    if not await _until_none(config, grace, lambda _: None):
        await _until_none(config, 10.0, lambda run: _send(run, signal.SIGUSR2))
    await _end_shims(config)
    # The next kubelet may come in a month. For a Pod that goes on then, it makes them again.
    await asyncio.to_thread(_remove_secrets, config)


def _remove_secrets(config: KubeletConfig) -> None:
    for path in config.pods.iterdir() if config.pods.exists() else ():
        folder = PodFolder(path)
        folder.remove_shown_volumes()
        folder.forget_variables()


async def _end_shims(config: KubeletConfig) -> None:
    """Wait for shims that have recorded the end but not yet gone, or have not yet found that they came late."""
    prefix = f"{config.pods.absolute()}/"
    for _ in range(200):
        if not (left := processes.with_argument(prefix)):
            return
        await asyncio.sleep(0.01)
    shim_processes.kill(left)


async def _until_none(config: KubeletConfig, seconds: float, action: Callable[[Run], None]) -> bool:
    """Return whether everything had ended before the time was up."""
    end = asyncio.get_running_loop().time() + seconds
    while runs := [run for _, _, run in _open_runs(config) if run.state != "exited"]:
        for run in runs:
            action(run)
        if asyncio.get_running_loop().time() > end:
            return False
        await asyncio.sleep(0.02)
    return True
