"""The first process of a container whose process numbers are its own: it starts the program, passes signals on, reaps.

A program that is number 1 itself would not get SIGTERM unless it asks for it, and would have to collect orphans. The
shim's child becomes it (`shim.py`); when it ends, the kernel ends whatever is left of the container. Standard library
only.
"""

import errno
import os
import select
import signal
from collections.abc import Iterable, Mapping
from typing import NoReturn

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_WAITED = (*FORWARDED, signal.SIGCHLD)


def be_born(born: int, kept: Iterable[int]) -> None:
    """Fork in a process that has unshared its numbers, and return in number 1; the caller reports its number
    outside, and ends.

    Of the descriptors it has only those `kept`: locks and pipes of the shim must end with the shim.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)  # none is lost before it is waited for
    pid = os.fork()
    if pid:
        os.write(born, str(pid).encode())
        os._exit(0)
    become(kept)


def become(kept: Iterable[int]) -> None:
    """Become number 1 of the container, with its signals blocked until it waits for them: none is lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    os.setsid()
    close_all_but({0, 1, 2, *kept})


def close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # the one that the listing itself had
                continue


def outlived(lifeline: int) -> bool:
    """Return whether the shim, which holds the other end and has written all it will, is gone."""
    return bool(select.select([lifeline], [], [], 0)[0])


def run_program(ended: int) -> None:
    """Return in the child that becomes the program; number 1 itself waits for it, and ends with its status."""
    pid = os.fork()
    if pid:
        try:
            # From here on number 1 of the container: when it ends, the kernel kills what is left of it.
            _look_after(pid, ended)
        finally:
            os._exit(1)  # whatever it was: this fork must never return into the shim
    os.setsid()
    for number in FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def spawn_program(argv: list[str], env: Mapping[str, str], ended: int) -> NoReturn:
    """Run the program as number 1's child, without a copy of this interpreter for the moment before its exec.

    Raises OSError where it cannot be run.
    """
    pid = _spawn(argv, env)
    try:
        _look_after(pid, ended)
    finally:
        os._exit(1)


def _spawn(argv: list[str], env: Mapping[str, str]) -> int:
    """Search for the program as `os.execvpe` does: in the folders of its own PATH."""
    if os.path.dirname(argv[0]):
        return os.posix_spawn(argv[0], argv, env, setsid=True, setsigmask=())
    problem: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    paths = [os.path.join(folder, argv[0]) for folder in os.get_exec_path(env)]
    # Each attempt takes a process number: programs of a container that count them begin with 2.
    for path in filter(os.path.exists, paths):
        try:
            return os.posix_spawn(path, argv, env, setsid=True, setsigmask=())
        except OSError as error:
            problem = error
    raise problem


def _look_after(pid: int, ended: int) -> NoReturn:
    # The program's streams above all: the shim reads them until no process holds them any more.
    close_all_but({ended})
    while True:
        number = signal.sigwait(_WAITED)
        if number == signal.SIGTERM:
            _signal(pid, number, group=True)
        elif number != signal.SIGCHLD:
            _signal(pid, number, group=False)
        status = _reap(pid)
        if status is not None:
            # By the pipe, since number 1 cannot end by the signal that ended its
            # program: its own status would not show it.
            os.write(ended, str(status).encode())
            os._exit(0)


def _signal(pid: int, number: int, *, group: bool) -> None:
    """Signal the program's session, or the program alone before it has one."""
    try:
        (os.killpg if group else os.kill)(pid, number)
    except ProcessLookupError:
        if group:
            _signal(pid, number, group=False)


def _reap(program: int) -> int | None:
    """Collect every process that has ended; the program's status, if it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == program:
            return status
        if pid == 0:
            return None
