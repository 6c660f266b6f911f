"""One model server that is kept running: `start` returns once it answers; a server that dies is started again."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from steelyard.local.serving.plan import ServerPlan
from steelyard.local.serving.watcher import STOP
from steelyard_common import processes
from steelyard_common.errors import SteelyardError

POLL_SECONDS = 0.25
ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.02
LISTENING_SECONDS = 5.0
"""Time between two checks whether a server that is ready still listens."""
REFUSALS = 3
"""Refused connections in a row, after which a server that runs is ended: it will not listen again."""
STARTS = 3
"""Starts in a row without a ready server, after which no other one is tried."""
PAUSE_SECONDS = 1.0
TAIL_LINES = 12
TAIL_BYTES = 256 << 10
MARK = "STEELYARD_SERVER"


class ServerFailed(SteelyardError):
    """The server cannot be started; the message has its last lines."""


class Server:
    """A server of a plan. `say` gets one line for each stage, `warn` what a person should check."""

    def __init__(
        self, plan: ServerPlan, say: Callable[[str], None], warn: Callable[[str], None] | None = None
    ) -> None:
        self.plan, self.restarts = plan, 0
        self._say, self._warn = say, warn or say
        self._watcher: asyncio.subprocess.Process | None = None
        self._line: socket.socket | None = None
        self._stopping = asyncio.Event()
        self._mark = secrets.token_hex(8)
        """Value of MARK in the environment of every process of the server."""

    @property
    def process(self) -> int:
        """The pid of the process that watches the server; 0 while there is none."""
        return self._watcher.pid if self._watcher is not None and self._watcher.returncode is None else 0

    async def start(self) -> None:
        """Say what it needs, start it, and return once it answers. Raises ServerFailed."""
        plan = self.plan
        version = f"{plan.kind.title} {plan.environment.version} ({plan.environment.variant})"
        self._say(f"{version} serves {plan.serving.name}: {plan.memory_text}")
        if not plan.fits:
            self._warn(
                "the server needs more memory than there is: it may be ended, or the machine become slow"
            )
        await self._start_once()

    async def keep(self) -> None:
        """Start the server again whenever it ends, until `stop`. Raises ServerFailed when it starts no more."""
        failures = 0
        while not self._stopping.is_set():
            code = await self._wait_until_ended()
            if code < 0:
                await asyncio.to_thread(kill_marked, self._mark)
            if self._stopping.is_set():
                return
            self._close_line()
            self.restarts += 1
            self._warn(f"the server {describe_end(code)}{self._explain_end(code)}; it is started again")
            try:
                await self._start_once()
                failures = 0
            except ServerFailed:
                failures += 1
                if failures >= STARTS:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)

    async def _wait_until_ended(self) -> int:
        """Return the watcher's exit status once the server has ended, or was ended because it listens no more.

        A vLLM that is asked to end closes its port first, and then waits for answers, also for those that its engine,
        which has ended already, will never give.
        """
        assert self._watcher is not None
        ended, refused = asyncio.ensure_future(self._watcher.wait()), 0
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=LISTENING_SECONDS)
                refused = (
                    refused + 1 if await refuses(self.plan.serving.host, int(self.plan.serving.port)) else 0
                )
                if refused == REFUSALS and not ended.done():
                    self._warn("the server has closed its port, but does not end: it is ended")
                    self._end()
            return ended.result()
        finally:
            ended.cancel()

    async def stop(self) -> None:
        """End the server and every process that it began."""
        self._stopping.set()
        self._end()
        if self._watcher is not None and await self._watcher.wait() < 0:
            await asyncio.to_thread(kill_marked, self._mark)
        self._close_line()

    def _end(self) -> None:
        """Order the watcher to end the server."""
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.send(STOP)

    async def _start_once(self) -> None:
        plan, began = self.plan, time.monotonic()
        plan.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        plan.log.write_bytes(b"")
        ours, theirs = socket.socketpair()
        with theirs:
            watcher = [sys.executable, "-P", "-m", "steelyard.local.serving.watcher"]
            self._watcher = await asyncio.create_subprocess_exec(
                *watcher, str(theirs.fileno()), str(plan.log), *plan.command,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                env={**plan.variables, MARK: self._mark}, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        self._line = ours
        ended = asyncio.ensure_future(self._watcher.wait())
        try:
            await self._until_ready(ended, began)
        finally:
            ended.cancel()
        self._say(f"ready after {time.monotonic() - began:.0f} s: {plan.url}")

    async def _until_ready(self, ended: "asyncio.Future[int]", began: float) -> None:
        plan, stages = self.plan, _Stages(self.plan, self._say)
        port, path = int(plan.serving.port), plan.kind.ready_path
        while not ended.done():
            stages.read_log()
            if await answers(plan.serving.host, port, path) and not ended.done():
                return
            await asyncio.wait([ended], timeout=POLL_SECONDS)
        if ended.result() < 0:
            await asyncio.to_thread(kill_marked, self._mark)
        self._close_line()
        lines = tail(plan.log)
        text = "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])
        raise ServerFailed(
            f"{plan.kind.title} {describe_end(ended.result())} after {time.monotonic() - began:.0f} s, "
            f"before it was ready{self._explain_end(ended.result())}\n  The end of {plan.log}:\n{text}"
        )

    def _explain_end(self, code: int) -> str:
        """Say why the server ended, after a colon, where its log says that."""
        number = code - 128 if code > 128 else max(0, -code)
        why = self.plan.kind.last_error(tail(self.plan.log), number)
        return f": {why}" if why else "" if number else ": it wrote nothing"

    def _close_line(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class _Stages:
    """The stages of a start, as the log shows them; each is said once."""

    def __init__(self, plan: ServerPlan, say: Callable[[str], None]) -> None:
        self._plan, self._say = plan, say
        self._place, self._rest, self._last = 0, "", ""

    def read_log(self) -> None:
        with self._plan.log.open("rb") as file:
            file.seek(self._place)
            read = file.read()
        self._place += len(read)
        # Progress bars end their lines with a carriage return.
        *lines, self._rest = (self._rest + read.decode(errors="replace")).replace("\r", "\n").split("\n")
        for line in lines:
            stage = self._plan.kind.stage(line)
            if stage and stage != self._last:
                self._last = stage
                self._say(stage)


async def answers(host: str, port: int, path: str) -> bool:
    """Return whether a server answers a GET with 200."""
    writer = None
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
            return b" 200 " in await reader.readline()
    except (OSError, TimeoutError, ValueError):
        return False
    finally:
        if writer is not None:
            writer.close()


async def refuses(host: str, port: int) -> bool:
    """Return whether nothing listens at a port; a server that is only slow to take a connection is there."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False


def kill_marked(mark: str) -> None:
    """Kill the processes that have this mark until none is left: those of a watcher that was killed."""
    entry = f"{MARK}={mark}"
    while pids := [pid for pid in processes.with_environment(entry) if processes.start_time(pid) is not None]:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def describe_end(code: int) -> str:
    """Say how a server ended, by its watcher's exit status."""
    if code > 128:
        return f"was killed by signal {code - 128}"
    return f"ended with exit status {code}" if code >= 0 else f"was killed with its watcher by signal {-code}"


def tail(log: Path) -> list[str]:
    """The last lines of a server's log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    except OSError:
        return []
