"""Starts shims by forking: one process of the kubelet loads their code once, since an interpreter's start costs more
than everything else a shim does for a short run.

`main` is its whole life: a request is an intent's path with two descriptors (closed once the program runs; for errors),
the answer a pid with its pidfd. It ends with the kubelet; the shims go on. Standard library only.
"""

import ctypes
import gc
import os
import signal
import socket
import sys
import traceback
from typing import Protocol

from steelyard_common import processes
from steelyard_local_kubernetes.kubelet import (
    binds,  # noqa: F401 - loaded here once, for all shims
    shim,
    splice,  # noqa: F401 - likewise
)

PLACE = 1024  # bytes of the command line that a shim's intent takes, so that /proc shows whose it is
_ARGUMENTS_AT = 45  # field of /proc/PID/stat, counted from the state


def show_intent(path: str) -> None:
    """Write the intent's path where this process's own command line has room for it."""
    with open("/proc/self/cmdline", "rb") as file:
        offset = file.read().find(b" " * PLACE)
    fields = processes.stat_fields(os.getpid())
    # `steelyard down` finds a shim that has recorded nothing yet by its command line alone.
    if offset >= 0 and fields and len(path.encode()) < PLACE:
        ctypes.memmove(int(fields[_ARGUMENTS_AT]) + offset, path.encode().ljust(PLACE, b"\0"), PLACE)


class Origin(Protocol):
    """The process that shims are forked from, as far as a fork differs from one of another origin."""

    def is_stale(self) -> bool:
        """Return whether no further shim should come of it."""

    def show_shim(self, path: str) -> None:
        """Show the intent's path in the command line of the fork."""

    @property
    def execute(self) -> shim.Execute:
        """Function that takes the role of exec in a container's child, if any."""


class Bare:
    """A process that knows shims only: programs are executed."""

    def is_stale(self) -> bool:
        return False

    def show_shim(self, path: str) -> None:
        show_intent(path)

    @property
    def execute(self) -> shim.Execute:
        return None


def become_shim(path: str, ready: int, errors: int, origin: Origin) -> None:
    """Become, in the fork, what `python -c ... shim.main()` would be, in a session of its own.

    `shim.Become` comes out of it in the container's child that goes on as the program, and nothing else ever does.
    """
    code = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for target, source in enumerate((null, null, errors)):
            os.dup2(source, target)
        os.close(null)
        os.close(errors)
        os.set_inheritable(ready, False)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        origin.show_shim(path)
        code = shim.run(path, lambda: os.close(ready), origin.execute)
    except shim.Become:
        raise
    except BaseException:  # noqa: BLE001 - a fork must never return into the server
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def _reap(*_: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def main() -> None:
    """`PLACE FD`: serve requests from the socket until its other end is closed."""
    connection = socket.socket(fileno=int(sys.argv[2]))
    connection.set_inheritable(False)
    serve(connection, Bare())


def serve(connection: socket.socket, origin: Origin) -> None:
    """Fork a shim for each request until the other end is closed; without an answer when the origin is stale."""
    # Forks share the pages of the loaded code; a collection would write to each object, and with that copy them.
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 2)
        if not request or origin.is_stale():
            return
        signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGCHLD}
        )  # no pid is another's before it is answered
        pid = os.fork()
        if pid == 0:
            connection.close()
            ready, errors = descriptors
            become_shim(os.fsdecode(request), ready, errors, origin)
        for descriptor in descriptors:
            os.close(descriptor)
        process = os.pidfd_open(pid)
        socket.send_fds(connection, [str(pid).encode()], [process])
        os.close(process)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
