"""End of a process whose work is done. Steps and the command line call it."""

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

TERMINATED = 128 + signal.SIGTERM
"""Exit status of a process that SIGTERM has ended, as shells give it."""


def obey_termination() -> None:
    """Let SIGTERM end this process also where it is the first of a container, until it has a handler of its own.

    The kernel sends the first process of a container no signal that it does not handle: one that came while the
    program was still being imported would be lost.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(TERMINATED))


def leave(status: int) -> NoReturn:
    """Exit with a status, without the interpreter's finalization where the library of object stores is loaded.

    Its threads come back to Python for a moment after an operation has ended. If they do so while the interpreter is
    finalized, the process aborts (SIGABRT), and what it has done is taken for a failure.
    """
    if "obstore" not in sys.modules:
        sys.exit(status)
    # What the interpreter would call itself: telemetry that is sent, temporary folders that are removed.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(status)
