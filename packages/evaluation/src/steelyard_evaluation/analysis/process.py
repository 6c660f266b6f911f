"""Runs a method in a process of its own, which inherits nothing, and ends it with all that it has started.

Its output is read as it comes. It is bounded: beyond the bound, only the last lines are kept, which say how it ended.
"""

import asyncio
import ctypes
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steelyard_common import processes

PRINTED_BYTES = 8 << 20
"""Bytes of a method's output that go to the log as they come."""
LAST_BYTES = 64 << 10
"""Bytes at the end of a longer output that go to the log as well."""
LINE_BYTES = 8 << 10
"""Bytes of a line; a longer one is cut into several."""
END_SECONDS = 10.0
"""Seconds for which the rest of the output is read after the process has ended."""
MARK = "STEELYARD_ANALYSIS_PROCESS"
"""Environment variable by which the processes are found that a method has left behind."""
CONTAINER = "STEELYARD_CONTAINER"
"""Environment variable by which the kubelet of one machine finds what a container has left behind."""
_PIECE = 64 << 10
_LINE_COST = 64
"""Bytes that a line of the log has besides its text, about."""
_ESCAPES = re.compile(r"\x1B(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])")
_PR_SET_DUMPABLE = 4
_SEARCHES, _SEARCH_SECONDS = 100, 0.01
Write = Callable[[str], None]


async def run_process(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    write: Write,
    *,
    python: str = sys.executable,
) -> int:
    """Run a program of a Python to its end, and return its status; a negative one is that of a signal.

    Each line that it prints is passed to `write`. Whatever it has started ends with it, also when this is cancelled.
    """
    mark, others = secrets.token_hex(16), _descendants()
    process = await asyncio.create_subprocess_exec(
        python,
        *("-P", "-u", "-X", "faulthandler", *arguments),
        cwd=folder,
        env={**environment, MARK: mark},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # Of its own, so that it can be ended with what it starts; uvloop knows no groups.
        start_new_session=True,
    )
    lines = Lines(write)
    reading = asyncio.create_task(_read(process, lines))
    try:
        return await process.wait()
    finally:
        await asyncio.shield(_end(process, mark, others, reading))
        lines.close()


async def _end(
    process: asyncio.subprocess.Process, mark: str, others: Collection[int], reading: "asyncio.Task[None]"
) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.to_thread(_end_left, mark, others)
    await process.wait()
    # A process that hid from the search may hold the pipe open for ever.
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await asyncio.shield(reading)
    reading.cancel()


async def _read(process: asyncio.subprocess.Process, lines: "Lines") -> None:
    assert process.stdout is not None
    while piece := await process.stdout.read(_PIECE):
        lines.add(piece)


@dataclass
class Lines:
    """Bounded output of a process, passed on line by line."""

    write: Write
    _begun: bytes = b""
    _printed: int = 0
    _last: bytes = b""
    _left_out: int = 0

    def add(self, piece: bytes) -> None:
        """Take a piece of output, which may end within a line."""
        if self._printed >= PRINTED_BYTES:
            # No line by line any more: a method that prints for ever must not take the step's time as well.
            self._last += piece
            self._left_out += max(len(self._last) - LAST_BYTES, 0)
            self._last = self._last[-LAST_BYTES:]
            return
        *whole, rest = (self._begun + piece).split(b"\n")
        for line in whole:
            self._line(line)
        cut = len(rest) - len(rest) % LINE_BYTES
        self._begun = rest[cut:]
        if cut:
            self._line(rest[:cut])

    def close(self) -> None:
        """Write what is left: a last line without its end, and the end of a long output."""
        if self._begun:
            self._line(self._begun)
            self._begun = b""
        if self._left_out:
            self.write(f"[{self._left_out} bytes of output are left out here]")
        if self._last:
            for line in self._last.removesuffix(b"\n").split(b"\n"):
                self._line(line)
        self._last = b""

    def _line(self, line: bytes) -> None:
        for begin in range(0, max(len(line), 1), LINE_BYTES):
            piece = line[begin : begin + LINE_BYTES]
            self._printed += len(piece) + _LINE_COST
            # A progress bar goes back to the beginning of its line: the last state of it says everything.
            self.write(_ESCAPES.sub("", piece.decode(errors="replace")).rstrip("\r").rpartition("\r")[2])


def _end_left(mark: str, others: Collection[int]) -> None:
    """End what the method has left: processes whose environment has the mark, and those below this one but `others`.

    Kernels of Jupyter leave their parent's group. A process that hides itself leaves its environment and its parent as
    well; it could still change files that are being published.
    """
    ended: set[int] = set()
    # One that is just being started may be missed by one search.
    for _ in range(_SEARCHES):
        left = processes.with_environment(f"{MARK}={mark}") | _descendants(others)
        # The main thread alone may have ended, which looks like a process that has.
        left = {pid for pid in left if pid not in ended or processes.start_time(pid)} - {os.getpid()}
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= left
        time.sleep(_SEARCH_SECONDS)


def hide_environment() -> None:
    """Keep other processes of this user from reading this one's environment and memory, where credentials lie.

    A process of the administrator can read them still. On one machine all Pods are processes of one user anyway, and
    the kubelet reads there which process belongs to which container.
    """
    if CONTAINER in os.environ:
        return
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def status_text(status: int) -> str:
    """Return how a process ended, in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"{name}, perhaps because there was no memory left" if name == "SIGKILL" else name


def _descendants(others: Collection[int] = ()) -> set[int]:
    """Return the processes below this one, but `others` and those below them."""
    known = {pid: parent for pid, parent in processes.parents().items() if pid not in others}
    return processes.tree([os.getpid()], known) - {os.getpid()}
