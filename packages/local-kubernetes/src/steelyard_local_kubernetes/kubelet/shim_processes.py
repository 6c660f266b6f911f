"""Shims as the running kubelet holds them: started or adopted, watched by pidfd instead of polling."""

import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from steelyard_common import processes
from steelyard_local_kubernetes.kubelet import forks, shim, warm

log = logging.getLogger(__name__)
FORK_SECONDS = 10.0  # a fork takes a millisecond
SOURCES = [*dict.fromkeys((shim.SOURCE, str(Path(processes.__file__).parents[1])))]
"""Folders from which shims import: one where all is installed, two in a checkout."""
BRIEF_SECONDS = 0.02  # a container that ends within them is reported once, by its end


def program(entry: str, module: str = "shim") -> str:
    """Python that runs an entry point of the shim without site-packages, for a quick start."""
    where = "steelyard_local_kubernetes.kubelet"
    return f"import sys; sys.path[:0] = {SOURCES!r}; from {where} import {module}; {module}.{entry}()"


class ShimProcess:
    """One shim; `on_change` is called when its container has run for a moment, and when it has ended."""

    def __init__(self, pid: int, fd: int, on_change: Callable[[], None], ready: int | None = None) -> None:
        self.pid, self.fd, self.ready = pid, fd, ready
        self.on_change = on_change
        self.exit_code: int | None = None  # known of children of this very process only
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._telling: asyncio.TimerHandle | None = None
        self._loop.add_reader(fd, self._end)
        if ready is not None:
            self._loop.add_reader(ready, self._start)

    def _start(self) -> None:
        self._close_ready()
        # Each reported state is a write to the API, which every watcher reads and every controller reconciles.
        self._telling = self._loop.call_later(BRIEF_SECONDS, self.on_change)

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
        if self._telling is not None:
            self._telling.cancel()
        if self.fd >= 0:
            self._loop.remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1


class StartedShim(NamedTuple):
    """A shim that was started, and the descriptors that signal its end and the start of its container."""

    pid: int
    fd: int
    ready: int

    def watch(self, on_change: Callable[[], None]) -> ShimProcess:
        """Watch it, in the event loop's thread."""
        return ShimProcess(self.pid, self.fd, on_change, self.ready)


class ForkServer:
    """Starts shims at a fraction of an interpreter's start (`forks.py`); where it fails, each is started by itself."""

    def __init__(self, python: str, steps: "StepTemplate | None" = None) -> None:
        self.python, self.steps = python, steps
        self._connection: socket.socket | None = None
        self._pid = 0
        self._turn = threading.Lock()  # of one request: its answer is the next one on the connection
        self._closed = False

    def start(self, intent: Path, on_change: Callable[[], None]) -> ShimProcess:
        """The shim of an intent, in a session of its own."""
        return self.launch(intent).watch(on_change)

    def launch(self, intent: Path) -> StartedShim:
        """Start the shim of an intent, which takes some milliseconds on a busy machine: any thread may wait for it."""
        with self._turn:
            # The kubelet ends: who stops its Pods next must find all of their shims.
            if self._closed:
                raise ConnectionResetError("no shim is started any more")
            if self.steps is not None and (child := self.steps.launch(intent)) is not None:
                return child
            try:
                if self._connection is None:
                    self.begin()
                assert self._connection is not None
                return _request(self._connection, intent)
            except OSError as error:  # it was killed, or hangs: of two shims of one run, one starts it
                log.warning("the fork server does not answer: %s", error)
                self.close_connection()
                return spawn(self.python, intent)

    def begin(self) -> None:
        """Have it load what shims need, before the first one is needed."""
        argv = [self.python, "-I", "-S", "-c", program("main", "forks"), " " * forks.PLACE, "3"]
        self._connection, self._pid = _begin_server(argv, {"PATH": os.defpath})

    def close(self) -> None:
        """End it and the template of steps; their shims go on."""
        with self._turn:
            self._closed = True
            self.close_connection()
            if self.steps is not None:
                self.steps.close()

    def close_connection(self) -> None:
        if self._connection is not None:
            _end_server(self._connection, self._pid)
            self._connection = None


class StepTemplate:
    """Starts shims of steps from an interpreter that has imported what steps need (`warm.py`); whatever goes wrong,
    they are started like others.

    The first step begins the template, and does not wait for it.
    """

    def __init__(self, python: str, modules: warm.WarmModules) -> None:
        self.python, self.programs = python, modules.programs
        self.command = warm.command(python, modules)
        self.pid = 0
        self._connection: socket.socket | None = None
        self._ready = False

    def launch(self, intent: Path) -> StartedShim | None:
        """Start the shim of a step's intent; None where it has to be started otherwise."""
        try:
            read = shim.read_intent(str(intent), self.python)
            if not warm.fits(read, self.python, self.programs) or not self.answers():
                return None
            assert self._connection is not None
            return _request(self._connection, intent)
        except (
            OSError,
            ValueError,
            KeyError,
        ) as error:  # it ended: killed, unused for long, or its code was replaced
            log.info("steps are executed until the template is there again: %s", error)
            self.close()
            return None

    def answers(self) -> bool:
        """Return whether the template has loaded everything, without waiting; one that has ended is begun again."""
        if self._connection is None:
            self._connection, self.pid = _begin_server(*self.command)
            self._ready = False
        # The kubelet manages all Pods meanwhile: it must not wait while modules are imported. A check first, since
        # Python waits for a socket that has a timeout, also with MSG_DONTWAIT.
        if not self._ready and select.select([self._connection], [], [], 0)[0]:
            self._ready = self._connection.recv(len(warm.READY)) == warm.READY
            if not self._ready:
                raise ConnectionResetError("it ended while it began")
        return self._ready

    def close(self) -> None:
        """End the template; its shims go on."""
        if self._connection is not None:
            _end_server(self._connection, self.pid)
            self._connection = None


def _begin_server(argv: list[str], environment: dict[str, str]) -> tuple[socket.socket, int]:
    """Start a server that answers on its descriptor 3; our end, and its pid."""
    # Packets: a request and its descriptors arrive together, and never as a part or with the next one.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # A fork server that hangs must not hold the kubelet for ever: after that shims are started without it.
    ours.settimeout(FORK_SECONDS)
    with theirs:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
        ]
        try:
            pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
        except OSError:
            ours.close()
            raise
    return ours, pid


def _end_server(connection: socket.socket, pid: int) -> None:
    connection.close()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _request(connection: socket.socket, intent: Path) -> StartedShim:
    """Have a server fork the shim of an intent."""
    errors = os.open(_errors_file(intent), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    ready, write = os.pipe()
    try:
        socket.send_fds(connection, [os.fsencode(intent)], [write, errors])
        answer, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
        if not answer:
            raise ConnectionResetError("it has ended")
    except OSError:
        os.close(ready)
        raise
    finally:
        os.close(write)
        os.close(errors)
    return StartedShim(int(answer), descriptors[0], ready)


def _errors_file(intent: Path) -> str:
    return str(intent.with_suffix(".shim"))


def spawn(python: str, intent: Path) -> StartedShim:
    """Start the shim of an intent with an interpreter of its own, in a session of its own."""
    read, write = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, _errors_file(intent), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
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
    return StartedShim(pid, os.pidfd_open(pid), read)


def open_process(pid: int, start: int) -> int | None:
    """A pidfd of the process that started at `start`; None when it has ended, even if another process has its pid
    now."""
    if not pid:
        return None
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # Compared once the process is held: from here on its number cannot become another's.
    if processes.start_time(pid) != start:
        os.close(fd)
        return None
    return fd


def adopt(pid: int, start: int, on_change: Callable[[], None]) -> ShimProcess | None:
    """A shim that an earlier kubelet started; None when it has ended."""
    fd = open_process(pid, start)
    return ShimProcess(pid, fd, on_change) if fd is not None else None


def kill(pids: Iterable[int]) -> None:
    """Kill processes that were just looked up; one that has ended since does not matter."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def end_strays(marker: str, seconds: float) -> None:
    """Kill what a killed shim left behind, recognised by its environment; back when it is gone, or time is up."""
    end = asyncio.get_running_loop().time() + seconds
    # Until none is found: one may have forked between the search and its end.
    while strays := await asyncio.to_thread(processes.with_environment, marker):
        kill(strays)
        if asyncio.get_running_loop().time() > end:
            return
        await asyncio.sleep(0.01)
