"""A training Pod's sockets stay at the Pod's own address, whatever its programs bind.

Training frameworks listen on all addresses, on the port that their contract gives; two replicas of one machine would
collide. The shim therefore answers their calls of bind and connect (`seccomp.py`), as if the Pod had a network of its
own: all addresses mean the Pod's, and so does a port of its own on 127.0.0.1; whom it calls on this machine sees the
Pod's address. Everything else passes as it is; where the shim cannot see the request, too. Runs in the shim: standard
library only.
"""

import _thread
import ctypes
import errno
import os
import signal
from collections.abc import Sequence

from steelyard_local_kubernetes.kubelet import seccomp
from steelyard_local_kubernetes.kubelet.seccomp import Call, Name, libc
from steelyard_local_kubernetes.kubelet.sockaddr import (
    DATAGRAM,
    INET,
    INET6,
    STREAM,
    Address,
    is_shared,
    own,
    parse,
    rewrite_bind,
)

CALLS: tuple[Name, ...] = ("bind", "connect")
_IP_LEVEL, _ADDRESS_NO_PORT = 0, 24
_SOCKET_LEVEL, _REUSE_ADDRESS, _TYPE, _IPV6_LEVEL, _V6_ONLY = 1, 2, 3, 41, 26
_LATER = -1
_LONGEST = 28  # bytes of an IPv6 socket address


def _set(fd: int, level: int, name: int) -> None:
    one = ctypes.c_int(1)
    libc.setsockopt(fd, level, name, ctypes.byref(one), ctypes.sizeof(one))


def _option(fd: int, level: int, name: int) -> int:
    value, size = ctypes.c_int(), ctypes.c_uint(ctypes.sizeof(ctypes.c_int))
    if libc.getsockopt(fd, level, name, ctypes.byref(value), ctypes.byref(size)) != 0:
        raise seccomp.failure("getsockopt")
    return value.value


def _error_number(result: int) -> int:
    """The errno of a call of libc, 0 for none."""
    return 0 if result == 0 else ctypes.get_errno()


def _v6_only(fd: int, address: Address) -> bool:
    return address.family == INET6 and bool(_option(fd, _IPV6_LEVEL, _V6_ONLY))


class Binds:
    """Answers for one container; `ip` is its Pod's address."""

    def __init__(self, listener: int, ip: str) -> None:
        self.listener, self.host = listener, bytes(int(part) for part in ip.split("."))
        self._ports: set[int] = set()  # of binds to all addresses or to 127.0.0.1 that became the Pod's

    def serve(self) -> None:
        """Answer calls until no process of the container is left."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while (call := seccomp.receive(self.listener)) is not None:
                self._answer(call)
        finally:  # a caller that still waits gets the error that there is no such call, instead of waiting for ever
            os.close(self.listener)

    def _answer(self, call: Call) -> None:
        try:
            error = self._inspect(call)
        except (OSError, StopIteration):  # not to be seen, or gone: as if we were not there
            error = None
        if error != _LATER:
            seccomp.answer(self.listener, call, error)

    def _inspect(self, call: Call) -> int | None:
        """Return the answer to a call; `_LATER` when another thread gives it."""
        fd, pointer, size = call.arguments[0], call.arguments[1], call.arguments[2] & 0xFFFFFFFF
        # A copy: what is bound is what was looked at. A call that passes is read again by the kernel; if another
        # thread changes the memory in between, the guard finds the socket.
        address = parse(seccomp.read_memory(call.thread, pointer, min(size, _LONGEST)))
        if address is None or not (
            is_shared(address) if call.name == "bind" else address.here or address.asks
        ):
            return None
        socket = seccomp.take(call.thread, fd & 0xFFFFFFFF)
        try:
            # Only now is it certain that memory and socket were the caller's: a thread that
            # was killed meanwhile leaves its number to others.
            if not seccomp.waits(self.listener, call):
                return None
            return self._bind(socket, address) if call.name == "bind" else self._call(call, socket, address)
        finally:
            os.close(socket)

    def _bind(self, socket: int, address: Address) -> int | None:
        kind = _option(socket, _SOCKET_LEVEL, _TYPE)
        target = rewrite_bind(address, self.host, kind, v6_only=_v6_only(socket, address))
        if target is None:
            return None
        if kind == STREAM and target.port:  # a program that starts again gets its port back at once
            _set(socket, _SOCKET_LEVEL, _REUSE_ADDRESS)
        raw = target.pack()
        error = _error_number(libc.bind(socket, raw, len(raw)))
        if error == errno.EADDRINUSE and address.loopback and target.port not in self._ports:
            # In a network of its own a program has the same port of the Pod's address and of 127.0.0.1. Callers of
            # the second one reach the first; the socket gets a port that no other program needs.
            raw = target._replace(port=0).pack()
            return _error_number(libc.bind(socket, raw, len(raw)))
        if not error and kind == STREAM:
            self._ports.add(target.port)
        return error

    def _call(self, call: Call, socket: int, address: Address) -> int | None:
        """A connection within the machine; where it goes to the Pod itself, we make it."""
        kind = _option(socket, _SOCKET_LEVEL, _TYPE)
        if kind == DATAGRAM and address.asks and not address.here:
            return self._tell_address(socket, address)
        if kind != STREAM or not address.here or _v6_only(socket, address):
            return None
        ours = is_shared(address) and self.listens(address.port)
        ipv4 = address.host[-4:-3] == b"\x7f"  # neither ::1 nor :: can be called from an address of IPv4
        if ours or ipv4:
            self._say_whence(socket, address)
        if not ours:
            return None
        raw = own(address, self.host).pack()
        # It answers at once, as a rule with EINPROGRESS; the program waits
        # for its own descriptor of the same socket.
        if not os.get_blocking(socket):
            return _error_number(libc.connect(socket, raw, len(raw)))
        _thread.start_new_thread(self._wait, (call, os.dup(socket), raw))
        return _LATER

    def _tell_address(self, socket: int, address: Address) -> int | None:
        """The answer that a Pod with a network of its own would get: the Pod's address, not the machine's."""
        self._say_whence(socket, address)
        raw = own(address, self.host).pack()
        return _error_number(libc.connect(socket, raw, len(raw)))

    def _wait(self, call: Call, socket: int, raw: bytes) -> None:
        """A program that waits for its connection does not make the others wait."""
        error = None
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            # Signals are blocked in this thread: one for the shim would end the
            # connect with an EINTR that the program never caused.
            error = _error_number(libc.connect(socket, raw, len(raw)))
        finally:
            os.close(socket)
            seccomp.answer(self.listener, call, error)

    def _say_whence(self, socket: int, address: Address) -> None:
        """Let a connection come from the Pod's address, its port still the kernel's to choose."""
        if _option(socket, _IP_LEVEL, _ADDRESS_NO_PORT):
            return
        # Without the option the bind would reserve a port for this one connection, and ports run out; with it
        # the kernel chooses one at the connect, when it knows the peer.
        _set(socket, _IP_LEVEL, _ADDRESS_NO_PORT)
        raw = own(address, self.host)._replace(port=0).pack()
        libc.bind(socket, raw, len(raw))  # one that is bound already refuses, and stays where it is

    def listens(self, port: int) -> bool:
        """Return whether a program of the Pod listens on the port; else the machine's own 127.0.0.1 is meant."""
        fd = libc.socket(INET, STREAM | os.O_CLOEXEC, 0)
        if fd < 0:
            return False
        try:
            _set(fd, _SOCKET_LEVEL, _REUSE_ADDRESS)
            # With SO_REUSEADDR connections that are ending do not count: only a listener refuses this bind.
            raw = Address(INET, port, self.host, rest=b"\0" * 8).pack()
            return _error_number(libc.bind(fd, raw, len(raw))) == errno.EADDRINUSE
        finally:
            os.close(fd)


def follow(pid: int, number: int, ip: str) -> None:
    """Answer from a thread of its own for the child that has installed its filter, until it has ended."""
    binds = Binds(seccomp.take(pid, number), ip)
    _thread.start_new_thread(binds.serve, ())


def ask(answered: int) -> None:
    """Install the filter, in the container's child: from now on its calls ask. The reader of the pipe learns
    where the listener is.
    """
    os.write(answered, str(seccomp.install(CALLS)).encode())
    os.close(answered)


def probe() -> None:
    """Fails unless a program can be made to bind another address than it asks for; run in a process of its own."""
    listener, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        _bind_everywhere(listener[1], go)
    os.close(go[0])
    os.close(listener[1])
    if number := os.read(listener[0], 16):
        follow(pid, int(number), "127.0.0.1")
    os.write(go[1], b"1")
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise OSError(errno.ENOSYS, "a bind was not rewritten")


def _bind_everywhere(listener: int, go: Sequence[int]) -> None:
    """Try a bind in the probe's child: 0 when the socket was bound to another address."""
    try:
        os.close(go[1])
        ask(listener)
        os.read(go[0], 1)
        fd = libc.socket(INET, STREAM, 0)
        raw = Address(INET, 0, b"\0" * 4, rest=b"\0" * 8).pack()
        if libc.bind(fd, raw, len(raw)) != 0:
            raise seccomp.failure("bind")
        size = ctypes.c_uint(16)
        name = ctypes.create_string_buffer(16)
        libc.getsockname(fd, name, ctypes.byref(size))
        address = parse(name.raw)
        os._exit(0 if address is not None and address.loopback else 1)
    except BaseException:  # noqa: BLE001 - a forked child must never return
        os._exit(1)
