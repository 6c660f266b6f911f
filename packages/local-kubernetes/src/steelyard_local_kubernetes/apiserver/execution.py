"""`pods/exec`: a command in a running container, over WebSocket. `core.py` says what to run, `transport.py` carries it.

Kubernetes' remote command protocols v4 and v5: each message's first byte is its channel.
"""

import asyncio
import contextlib
import os
import signal
import struct
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.logs import choose_container
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.kubelet.records import PodFolder
from steelyard_local_kubernetes.kubelet.shim_processes import program

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
LAST_WORDS = 1.0  # seconds without output after a command's end: what it left behind may hold its pipes
Send = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True)
class Execution:
    """A command that is to run, and which of its streams the client asks for."""

    command: tuple[str, ...]
    pid: int  # of the container's first process
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool
    protocols = PROTOCOLS

    async def run(self, protocol: str | None, messages: AsyncIterator[bytes], send: Send) -> None:
        await execute(self, messages, send)


def read_streams(request: Request) -> dict[str, bool]:
    """Streams that a client of `exec` or `attach` wants, by their names."""
    streams = {name: request.flag(name) for name in ("stdin", "stdout", "stderr", "tty")}
    if not any(streams[name] for name in ("stdin", "stdout", "stderr")):
        raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return streams


def prepare_execution(pods: Path | None, python: str, request: Request, item: Item) -> Execution:
    if pods is None:
        raise errors.not_implemented("this server has no folder of Pods, and so nothing to run commands in")
    streams = read_streams(request)
    if not request.all_values("command"):
        raise errors.bad_request("you must specify a command")
    container = choose_container(item.parse(), request.query.get("container", ""))
    folder = PodFolder(pods / item.uid)
    run = folder.run(container)
    if run is None or run.state != "running":
        raise errors.Refusal(500, "InternalError", f'container not found ("{container}")')
    intent = folder.base(container, run.attempt).with_suffix(".json")
    # With our own pid the command ends when this server dies, also before it has asked the kernel for that.
    inside = (str(intent), str(run.pid), str(os.getpid()))
    command = (python, "-I", "-S", "-c", program("exec_main"), *inside, *request.all_values("command"))
    return Execution(command, run.pid, **streams)


async def execute(execution: Execution, messages: AsyncIterator[bytes], send: Send) -> None:
    """Runs it, passes its streams on, and says how it ended. It ends with its container and with its caller."""
    async with _running(execution) as (process, terminal), _ending_with(execution.pid, process):
        await send(bytes([STDOUT if execution.stdout else ERROR]))  # shows the client that all is set up
        reader = await _reader(terminal) if terminal is not None else process.stdout
        sent = CountedSend(send)
        copies = [_copy(reader, STDOUT, sent), _copy(None if execution.tty else process.stderr, STDERR, sent)]
        output = asyncio.gather(*copies)
        # Its end is the sign that the caller is gone: the socket has nothing more to say.
        feeding = asyncio.create_task(_feed(messages, process, terminal))
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait([feeding, ended], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                return  # the caller is gone
            # A process that has ended may have left output in its pipe: wait until nothing more is sent.
            before = -1
            while not output.done() and sent.count != before:
                before = sent.count
                await asyncio.wait([output], timeout=LAST_WORDS)
            await send(bytes([ERROR]) + orjson.dumps(exit_status(process.returncode or 0)))
        finally:
            for task in (feeding, ended, output):
                task.cancel()
            await asyncio.gather(feeding, ended, output, return_exceptions=True)


class CountedSend:
    """Counts what goes out, so that a slow caller is not taken for a silent command."""

    def __init__(self, send: Send) -> None:
        self._send, self.count = send, 0

    async def __call__(self, message: bytes) -> None:
        await self._send(message)
        self.count += 1


def exit_status(code: int) -> Json:
    """Return how a command ended, as clients read it; a signal becomes 128 plus its number, as in shells."""
    code = 128 - code if code < 0 else code
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


@asynccontextmanager
async def _running(execution: Execution) -> AsyncIterator[tuple[Process, int | None]]:
    """The process, and our side of its terminal if it has one."""
    ours, theirs = os.openpty() if execution.tty else (None, None)
    try:
        process = await asyncio.create_subprocess_exec(
            *execution.command,
            stdin=theirs if theirs is not None else PIPE if execution.stdin else DEVNULL,
            stdout=theirs if theirs is not None else PIPE if execution.stdout else DEVNULL,
            stderr=theirs if theirs is not None else PIPE if execution.stderr else DEVNULL,
            # A session of its own: what the command starts is its group, and is killed with it.
            start_new_session=True,
        )
    finally:
        # Only the command may hold its side: while anybody else does, reading ours never ends.
        if theirs is not None:
            os.close(theirs)
    try:
        yield process, ours
    finally:
        _kill(process)
        await process.wait()
        if ours is not None:
            with contextlib.suppress(OSError):  # closed with its reader
                os.close(ours)


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@asynccontextmanager
async def _ending_with(pid: int, process: Process) -> AsyncIterator[None]:
    """Run the body while the container's first process lives."""
    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        _kill(process)
        yield
        return
    loop.add_reader(fd, _kill, process)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def _reader(terminal: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    file = os.fdopen(os.dup(terminal), "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader


async def _copy(reader: asyncio.StreamReader | None, channel: int, send: Send) -> None:
    if reader is None:
        return
    with contextlib.suppress(OSError):  # a terminal without a process is an error to read
        while block := await reader.read(1 << 15):
            await send(bytes([channel]) + block)


async def _feed(messages: AsyncIterator[bytes], process: Process, terminal: int | None) -> None:
    """Forward what the caller sends, until the caller is gone."""
    async for message in messages:
        channel, content = message[0] if message else CLOSE, message[1:]
        if channel == STDIN and terminal is not None:
            # A terminal whose program does not read blocks the writer: it must not block the server.
            await asyncio.to_thread(_write_all, terminal, content)
        elif channel == STDIN and process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                process.stdin.write(content)
                await process.stdin.drain()
        elif channel == RESIZE and terminal is not None:
            size = orjson.loads(content)
            ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
        # Since v5 a caller can end its input alone; in v4 only the whole connection ends.
        elif message == bytes([CLOSE, STDIN]) and process.stdin is not None:
            process.stdin.close()


def _write_all(fd: int, content: bytes) -> None:
    with contextlib.suppress(OSError):
        while content:
            content = content[os.write(fd, content) :]
