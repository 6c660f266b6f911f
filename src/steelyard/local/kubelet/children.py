"""Shims as the running kubelet holds them: started or adopted, watched by pidfd instead of polling."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from steelyard.local.kubelet import processes

SOURCE = str(Path(__file__).parents[3])


def program(entry: str) -> str:
    """Python that runs an entry point of the shim without site-packages, for a quick start."""
    return f"import sys; sys.path.insert(0, {SOURCE!r}); from steelyard.local.kubelet import shim; shim.{entry}()"


class Child:
    """One shim; `on_change` is called when its container has been started, and when it has ended."""

    def __init__(self, pid: int, fd: int, on_change: Callable[[], None], ready: int | None = None) -> None:
        self.pid, self.fd, self.ready = pid, fd, ready
        self.on_change = on_change
        self.exit_code: int | None = None  # known of own children only
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._end)
        if ready is not None:
            self._loop.add_reader(ready, self._start)

    def _start(self) -> None:
        self._close_ready()
        self.on_change()

    def _end(self) -> None:
        self.ended = True
        with contextlib.suppress(ChildProcessError):  # adopted: init reaps it
            self.exit_code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.close()
        self.on_change()

    def send(self, number: signal.Signals) -> None:
        """A signal to this very process; one that has ended gets none."""
        if self.fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.fd, number)

    def _close_ready(self) -> None:
        if self.ready is not None:
            self._loop.remove_reader(self.ready)
            os.close(self.ready)
            self.ready = None

    def close(self) -> None:
        """Stop watching; the shim itself goes on."""
        self._close_ready()
        if self.fd >= 0:
            self._loop.remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1


def spawn(python: str, intent: Path, on_change: Callable[[], None]) -> Child:
    """Start the shim of an intent, in a session of its own."""
    read, write = os.pipe()
    errors = str(intent.with_suffix(".shim"))
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
        (os.POSIX_SPAWN_DUP2, write, 3),
    ]
    argv = [python, "-I", "-S", "-c", program("main"), str(intent), "3"]
    try:
        pid = os.posix_spawn(python, argv, {"PATH": os.defpath}, file_actions=actions, setsid=True)
    except OSError:
        os.close(read)
        raise
    finally:
        os.close(write)
    return Child(pid, os.pidfd_open(pid), on_change, read)


def open_process(pid: int, start: int) -> int | None:
    """A pidfd of the process that started at `start`; None when it has ended, whoever has its pid now."""
    if not pid:
        return None
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if processes.start_time(pid) != start:
        os.close(fd)
        return None
    return fd


def adopt(pid: int, start: int, on_change: Callable[[], None]) -> Child | None:
    """A shim that an earlier kubelet started; None when it has ended."""
    fd = open_process(pid, start)
    return Child(pid, fd, on_change) if fd is not None else None


async def end_strays(marker: str, seconds: float) -> None:
    """Kill what a killed shim left behind, recognised by its environment; back when it is gone, or time is up."""
    end = asyncio.get_running_loop().time() + seconds
    while strays := await asyncio.to_thread(processes.with_environment, marker):
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if asyncio.get_running_loop().time() > end:
            return
        await asyncio.sleep(0.01)
