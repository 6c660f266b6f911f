"""One child process of the supervisor: started, watched, started again when it ends by itself, ended in order."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.local.pipe import READY, STOP
from steelyard.local.state import process_start
from steelyard_common.errors import Refused, SteelyardError

ROOM_SECONDS = 1.0  # between two checks whether the disk has room
# Seconds before a start again, doubling. An operator keeps deadlines, which come late by the longest.
FIRST_DELAY, LONGEST_DELAY = 0.2, 5.0
REFUSED_DELAY = 30.0  # seconds before a start again of a program that refuses to work until somebody helps
HEALTHY_SECONDS = 60.0  # a program that was ready for so long has the first delay again
LOG_LIMIT = 10 << 20
ERROR = "steelyard: "  # begins the line with which a program says why it ends


@dataclass(frozen=True)
class Program:
    """Program that a child runs: a command, which gets its end of the line by `--line N`, with its output in
    `log`.
    """

    name: str
    command: Sequence[str]
    log: Path


def service(name: str, options: Sequence[str], log: Path) -> Program:
    """`steelyard service NAME`, in this Python."""
    return Program(name, [sys.executable, "-m", "steelyard.cli.service", name, *options], log)


class KeptProcess:
    """A program kept running from `start` to `end`. `changed` is called whenever its pid does.

    While the disk has no `room`, it is not started again: it could only fail. Who watches the disk says so.
    """

    def __init__(
        self,
        program: Program,
        say: Callable[[str], None],
        changed: Callable[[], None],
        room: Callable[[], bool] = lambda: True,
    ) -> None:
        self.program = program
        self._room = room
        self.restarts = 0
        self.refusal = ""
        """Reason why the child refuses to work, in a line; empty while it works."""
        self._say, self._changed = say, changed
        self._process: asyncio.subprocess.Process | None = None
        self._line: socket.socket | None = None
        self._ready = asyncio.Event()
        self._ready_at: float | None = None  # in this run
        self._ending = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def identity(self) -> tuple[int, str] | None:
        """The pid and start time, while it runs."""
        if self._process is None or self._process.returncode is not None:
            return None
        # A pid alone may be another process's by the time that it is read; with its start time it is not.
        started = process_start(self._process.pid)
        return (
            (self._process.pid, started) if started else None
        )  # it has ended, and its end is not reported yet

    async def start(self, timeout: float) -> None:
        """Start it and wait until it says that it is ready; a first start that fails is the user's to know."""
        self._keeper = asyncio.create_task(self._keep())
        ready = asyncio.create_task(self._ready.wait())
        done, _ = await asyncio.wait(
            {ready, self._keeper}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        # The two may end in the same moment: a process that said it was ready and died at once counts as ready, and
        # is started again like any other.
        ready.cancel()
        if ready not in done:
            name, log = self.program.name, self.program.log
            if self._keeper in done and (error := self._keeper.exception()) is not None:
                raise SteelyardError(f"{name} cannot be started: {error}") from error
            if done and self.refusal:
                raise Refused(f"{name}: {self.refusal}")
            if done and (words := last_words(log)):
                raise SteelyardError(f"{name}: {words}")
            how = "ended before it was ready" if done else f"is not ready after {timeout:.0f} s"
            raise SteelyardError(f"{name} {how}; the end of {log}:\n{tail(log)}")

    async def end(self, timeout: float, *, leave_pods: bool = False) -> None:
        """Ask it to end, Pods included or left to the next `up`, and after `timeout` make it."""
        self._ending.set()
        if self._line is not None:
            with contextlib.suppress(OSError):
                if leave_pods:
                    # Services take the end of the line for our death: they end and leave the Pods to the next
                    # supervisor.
                    self._line.shutdown(socket.SHUT_WR)  # as if we had died
                else:
                    self._line.send(STOP)
        if self._keeper is None:
            return
        done, _ = await asyncio.wait({self._keeper}, timeout=timeout)
        if not done:
            self.kill()
            await asyncio.wait({self._keeper})

    async def watch(self) -> None:
        """Wait until the program is no longer kept running. Raises the error of the task that keeps it running."""
        if self._keeper is not None:
            # Shielded: who watches may be cancelled, while the process is to be kept running until `end`.
            await asyncio.shield(self._keeper)

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _keep(self) -> None:
        """Run it again and again until it is to end, or until its very first run fails before it was ready."""
        loop, delay = asyncio.get_running_loop(), FIRST_DELAY
        while not self._ending.is_set():
            try:
                code = await self._run_once()
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
                # A process that refuses to work says why in the last line of its log.
                self.refusal = (
                    tail(self.program.log, 1).removeprefix(ERROR) if code == Refused.exit_code else ""
                )
                self._changed()
            except OSError as error:  # its log cannot be opened, or there is no memory for one more process
                if not self._ready.is_set():
                    raise
                how = f"cannot be started: {error}"
            # A first start that fails is reported to the user; started again and again, it would hide a wrong
            # setting.
            if self._ending.is_set() or not self._ready.is_set():
                return
            delay = next_delay(delay, loop.time() - self._ready_at if self._ready_at is not None else 0.0)
            if self.refusal:
                delay, how = REFUSED_DELAY, f"refuses to work: {self.refusal}"
            self.restarts += 1
            when = f"in {delay:.1f} s" if self._room() else "once the disk has room"
            self._say(f"{self.program.name} {how}; it starts again {when} (log: {self.program.log})")
            await self._pause(delay)
            while not self._room() and not self._ending.is_set():
                delay = FIRST_DELAY
                await self._pause(ROOM_SECONDS)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def _run_once(self) -> int:
        self._ready_at = None
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, _open_log(self.program.log) as log:
                self._process = await asyncio.create_subprocess_exec(
                    # A session of its own: Ctrl-C in the terminal reaches the supervisor alone, which ends its
                    # children in their order.
                    *self.program.command, "--line", str(theirs.fileno()),
                    stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                    pass_fds=[theirs.fileno()], start_new_session=True,
                )  # fmt: skip
            self._line = ours
            self._changed()
            listener = asyncio.create_task(self._listen(ours))
            try:
                return await self._process.wait()
            finally:
                self._line = None
                listener.cancel()
                self._changed()

    async def _listen(self, line: socket.socket) -> None:
        line.setblocking(False)
        if READY.strip() in await asyncio.get_running_loop().sock_recv(line, 64):
            self._ready.set()
            self._ready_at = asyncio.get_running_loop().time()
            self.refusal = ""
            self._changed()


def next_delay(before: float, healthy: float) -> float:
    """Return the delay before the next start, after a delay `before` and a run that was ready for `healthy` seconds."""
    return FIRST_DELAY if healthy >= HEALTHY_SECONDS else min(before * 2, LONGEST_DELAY)


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[int]:
    """The log to append to; one that has grown large is put aside first."""
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        # Only between two runs: a process that holds the file open would go on writing to the old one.
        path.replace(path.with_suffix(".log.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def last_words(log: Path) -> str:
    """Return the error with which a program has ended, if it is the last line of its log."""
    line = tail(log, 1)
    return line.removeprefix(ERROR) if line.startswith(ERROR) else ""


def tail(log: Path, lines: int = 20) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(there is no log)"
