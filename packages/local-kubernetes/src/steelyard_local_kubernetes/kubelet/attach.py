"""The socket by which `attach` reaches a container that has `stdin` or `tty`: the shim's side. Standard library only.

A Unix socket of packets, `<n>.attach` next to the run's records. A caller's first packet says with `i` whether it has
input. Each further packet begins with the channel of Kubernetes' remote command protocol. The shim sends what the
container writes from then on, and closes the connection when the container has ended.
"""

import contextlib
import fcntl
import json
import os
import select
import socket
import struct
import termios
import time

STDIN, STDOUT, STDERR, _, RESIZE = range(5)
CLOSE = 255
PACKET = 1 << 16
_BEHIND = 64  # packets that a caller may be behind; then the container's output waits for it
STALLED_SECONDS = 5.0  # in which such a caller has to read something: one that reads nothing is left behind
CLOSING_SECONDS = 10.0  # in which callers have the rest of a container that has ended
_CHANNELS = {"stdout": STDOUT, "stderr": STDERR}


def open_socket(base: str) -> socket.socket:
    """A socket for a run's `attach`, by way of its folder: a path of its own could be too long for the kernel."""
    folder, name = os.path.split(f"{base}.attach")
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)
    listener.listen()
    listener.setblocking(False)
    return listener


def connect(base: str) -> socket.socket:
    """The caller's side. Raises OSError where the container has no such socket, or has ended."""
    folder, name = os.path.split(f"{base}.attach")
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(1.0)
        connection.connect(f"/proc/self/fd/{fd}/{name}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(fd)
    connection.setblocking(False)
    return connection


class Caller:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.has_input: bool | None = None  # not known before its first packet
        self.waiting: list[bytes] = []
        self.moved_at = 0.0  # when it last read something, or something began to wait for it

    def send(self) -> bool:
        """Send what waits; False where the caller is gone, or has read nothing for too long."""
        now = time.monotonic()
        try:
            while self.waiting:
                self.connection.send(self.waiting[0])
                del self.waiting[0]
                self.moved_at = now
        except BlockingIOError:
            return now - self.moved_at < STALLED_SECONDS
        except OSError:
            return False
        return True


class AttachedCallers:
    """The callers of one container, its input and, of a container with one, its terminal."""

    def __init__(self, base: str, stdin: int | None, terminal: int | None, *, once: bool) -> None:
        self.listener = open_socket(base)
        self.stdin, self.terminal, self.once = stdin, terminal, once
        self.callers: dict[int, Caller] = {}
        self.input = b""
        self._ending = False  # once the rest of the input is written, there is no more
        if stdin is not None:
            os.set_blocking(stdin, False)

    def reads(self) -> list[int]:
        # A sender of more than the program reads waits in the kernel, and in the end its user waits, too.
        callers = [] if self.input else list(self.callers)
        return [self.listener.fileno(), *callers]

    def writes(self) -> list[int]:
        behind = [fd for fd, caller in self.callers.items() if caller.waiting]
        return [*behind, *([self.stdin] if self.input and self.stdin is not None else [])]

    def is_behind(self) -> bool:
        """Return whether the container's output has to wait for a caller."""
        return any(len(caller.waiting) > _BEHIND for caller in self.callers.values())

    def handle(self, readable: list[int]) -> None:
        for fd in readable:
            if fd == self.listener.fileno():
                with contextlib.suppress(OSError):
                    connection, _ = self.listener.accept()
                    connection.setblocking(False)
                    self.callers[connection.fileno()] = Caller(connection)
            elif fd in self.callers:
                self._receive(fd)
        self._send()
        self._write()

    def _send(self) -> None:
        for fd, caller in list(self.callers.items()):
            if not caller.send():
                self._drop(fd)

    def _receive(self, fd: int) -> None:
        caller = self.callers[fd]
        try:
            packet = caller.connection.recv(PACKET)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._drop(fd)
        elif caller.has_input is None:
            caller.has_input = packet == b"i"
        elif packet[0] == STDIN and caller.has_input and not self._ending:
            self.input += packet[1:]
        elif packet[0] == RESIZE and self.terminal is not None:
            self._resize(packet[1:])
        elif packet == bytes([CLOSE, STDIN]) and caller.has_input:
            self._end_input()

    def _resize(self, content: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError, struct.error):
            size = json.loads(content)
            shape = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
            fcntl.ioctl(self.terminal or 0, termios.TIOCSWINSZ, shape)

    def _drop(self, fd: int) -> None:
        caller = self.callers.pop(fd)
        caller.connection.close()
        if caller.has_input:
            self._end_input()

    def _end_input(self) -> None:
        """Take no more input where `stdinOnce` says that the first caller's is all; a terminal's has no end."""
        if self.once and self.terminal is None:
            self._ending = True

    def _write(self) -> None:
        if self.stdin is None:
            self.input = b""
            return
        try:
            while self.input:
                self.input = self.input[os.write(self.stdin, self.input) :]
        except BlockingIOError:
            return
        except OSError:  # the program reads no more
            self.input, self._ending = b"", True
        if self._ending and self.stdin != self.terminal:
            os.close(self.stdin)
            self.stdin = None

    def show(self, stream: str, block: bytes) -> None:
        """Pass on what the container has written."""
        for caller in self.callers.values():
            if not caller.waiting:
                caller.moved_at = time.monotonic()
            for at in range(0, len(block), PACKET // 4):
                caller.waiting.append(bytes([_CHANNELS[stream]]) + block[at : at + PACKET // 4])
        self._send()

    def close(self, base: str) -> None:
        """Let callers have the rest, and go."""
        self.input = b""
        end = time.monotonic() + CLOSING_SECONDS
        while (behind := self.writes()) and (left := end - time.monotonic()) > 0:
            select.select([], behind, [], min(left, 1.0))
            self._send()
        # First of all: a client that sees a connection end may check for the socket.
        self.listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{base}.attach")
        for caller in self.callers.values():
            caller.connection.close()
