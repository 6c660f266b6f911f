"""The process between a command and its model server: whichever of the two dies, nothing of the server stays.

`python -m steelyard.local.serving.watcher LINE LOG COMMAND...`. A model server starts processes of its own, which
outlive it: vLLM's engine and workers keep gigabytes after a kill -9 of the process that serves. This process adopts
them (PR_SET_CHILD_SUBREAPER). It ends all of them once the server has ended, or once LINE, a socket to the command,
says STOP or closes because the command is gone; then it ends with the server's exit status.

There are two such processes, the guard and its child, the watcher. Where the watcher is killed, the guard adopts and
ends what it leaves; where the guard is killed, the watcher gets a signal from the kernel and ends all, and the command
ends whatever has its mark. A vLLM that is still starting does not end by SIGTERM, which is all that the kernel could
send it if command and watcher died and there were no guard.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from steelyard_common import processes

STOP = b"stop\n"
GRACE_SECONDS = 10.0
"""Time for an orderly end. A vLLM that is still starting was seen to ignore SIGTERM for minutes."""
POLL_SECONDS = 0.1


def main(arguments: Sequence[str]) -> int:
    """Run the server until it or its command ends; return its exit status."""
    line, log, command = int(arguments[0]), arguments[1], arguments[2:]
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    processes.adopt_orphans()
    guard = os.getpid()
    if watcher := os.fork():
        os.close(line)
        return _guard(watcher)
    processes.adopt_orphans()  # a child does not inherit it
    processes.end_with_parent(signal.SIGTERM)
    if os.getppid() != guard:  # it ended before the kernel knew that we want the signal
        return 1
    return _watch(line, log, command)


def _guard(watcher: int) -> int:
    """Wait for the watcher, end what it leaves, and return its exit status."""
    signal.signal(signal.SIGTERM, lambda *_: os.kill(watcher, signal.SIGTERM))
    code = os.waitstatus_to_exitcode(os.waitpid(watcher, 0)[1])
    while left := processes.descendants(os.getpid()):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
    return code if code >= 0 else 128 - code


def _watch(line: int, log: str, command: Sequence[str]) -> int:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True,
            # Where this process is killed and the command with it, the server gets a signal, and ends its own
            # processes.
            preexec_fn=lambda: processes.end_with_parent(signal.SIGTERM),  # noqa: PLW1509 - one thread
        )  # fmt: skip
    except OSError as error:
        os.write(descriptor, f"{command[0]}: {error.strerror}\n".encode())
        return 127
    signal.signal(signal.SIGTERM, lambda *_: os._exit(_end_server(server)))
    with socket.socket(fileno=line) as command_end:
        while server.poll() is None:
            if select.select([command_end], [], [], POLL_SECONDS)[0]:
                break
            _reap(server)
    return _end_server(server)


def _end_server(server: "subprocess.Popen[bytes]") -> int:
    """End the server and everything below us; return the server's exit status."""
    if server.poll() is None:
        server.terminate()
        until = time.monotonic() + GRACE_SECONDS
        while server.poll() is None and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
    while left := [
        pid for pid in processes.descendants(os.getpid()) if processes.start_time(pid) is not None
    ]:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        server.poll()
        _reap(server)
        time.sleep(0.01)
    code = server.wait()
    return code if code >= 0 else 128 - code


def _reap(server: "subprocess.Popen[bytes]") -> None:
    """Collect processes that we have adopted; the server's own end is for `server.poll`."""
    for pid, parent in processes.parents().items():
        if parent == os.getpid() and pid != server.pid and processes.start_time(pid) is None:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
