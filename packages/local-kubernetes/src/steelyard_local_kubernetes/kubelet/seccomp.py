"""Linux's seccomp notification, by ctypes: chosen system calls of a program wait until another process answers.

A container's child installs the filter on itself (`install`); its shim takes the listener (`take`) and answers.
Standard library only, since the shim runs without site-packages. Numbers of x86-64 and of aarch64.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Name = Literal["bind", "connect"]


@dataclass(frozen=True)
class Machine:
    """Numbers that differ between architectures."""

    audit: int
    seccomp: int
    calls: dict[Name, int]


MACHINES = {
    "x86_64": Machine(0xC000003E, 317, {"bind": 49, "connect": 42}),
    "aarch64": Machine(0xC00000B7, 277, {"bind": 200, "connect": 203}),
}
_PIDFD_GETFD = 438
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCH_AT = 0, 4
_RECEIVE, _SEND, _VALID = 0xC0502100, 0xC0182101, 0x40082102
_CALL = struct.Struct("=QIIiIQ6Q")  # id, pid, flags; number, architecture, instruction, arguments
_ANSWER = struct.Struct("=QqiI")  # id, value, error, flags
_CONTINUE = 1

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Call:
    """A system call that waits for its answer."""

    id: int
    thread: int
    name: Name
    arguments: tuple[int, ...]


def failure(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def program(machine: Machine, names: Iterable[Name]) -> bytes:
    """The filter: calls of these names ask, all others and those of other architectures pass."""
    numbers = [machine.calls[name] for name in names]
    # The architecture first: in a 32-bit program on the same kernel these numbers are other calls.
    steps = [(_LOAD, 0, 0, _ARCH_AT), (_EQUAL, 0, len(numbers) + 1, machine.audit), (_LOAD, 0, 0, _NUMBER_AT)]
    steps += [(_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NOTIFY)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def read_machine() -> Machine:
    numbers = MACHINES.get(os.uname().machine)
    if numbers is None:
        raise OSError(errno.ENOSYS, f"seccomp: no numbers for {os.uname().machine}")
    return numbers


def install(names: Iterable[Name]) -> int:
    """Install the filter for this process and all that it starts; return the listener, which an exec closes.

    Programs gain no privileges by set-uid any more: without root the kernel asks for that.
    """
    machine = read_machine()
    code = program(machine, names)
    text = ctypes.create_string_buffer(code, len(code))
    filter_program = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // 8, ctypes.addressof(text)), struct.calcsize("@HP")
    )
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise failure("no_new_privs")
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):  # before Linux 5.19 signals may interrupt
        fd: int = libc.syscall(machine.seccomp, _SET_MODE_FILTER, flags, filter_program)
        if fd >= 0:
            return fd
    raise failure("seccomp")


def take(thread: int, number: int) -> int:
    """A copy of another process's descriptor; both mean the same socket or listener."""
    process = _open_process(thread)
    try:
        fd: int = libc.syscall(_PIDFD_GETFD, process, number, 0)
        if fd < 0:
            raise failure("pidfd_getfd")
        return fd
    finally:
        os.close(process)


def _open_process(thread: int) -> int:
    """Open the process of a thread by its first thread; whichever thread calls, /proc knows its process."""
    try:
        return os.pidfd_open(thread)
    except OSError:
        with open(f"/proc/{thread}/status", "rb") as file:
            return os.pidfd_open(next(int(line.split()[1]) for line in file if line.startswith(b"Tgid:")))


def receive(listener: int) -> Call | None:
    """Wait for the next call; None when no process is left that could make one."""
    names = {number: name for name, number in read_machine().calls.items()}
    while True:
        buffer = bytearray(_CALL.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, buffer)
        except OSError as error:
            # ENOENT: the caller was killed before its call could be read. Others may still call.
            if error.errno == errno.EINTR or (error.errno == errno.ENOENT and not _ended(listener)):
                continue
            return None
        call_id, thread, _, number, _, _, *arguments = _CALL.unpack(buffer)
        return Call(call_id, thread, names[number], tuple(arguments))


def _ended(listener: int) -> bool:
    """Return whether the last process under the filter has gone; a single call may also end before it is read."""
    import select

    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def waits(listener: int, call: Call) -> bool:
    """Return whether the call still waits: else its thread has ended, and its number may be another's."""
    try:
        fcntl.ioctl(listener, _VALID, struct.pack("=Q", call.id))
    except OSError:
        return False
    return True


def answer(listener: int, call: Call, error: int | None) -> None:
    """Answer a call: None lets the kernel carry it out; else it is done, and the program gets 0 or an error."""
    flags = _CONTINUE if error is None else 0
    buffer = bytearray(_ANSWER.pack(call.id, 0, -(error or 0), flags))
    try:
        fcntl.ioctl(listener, _SEND, buffer)
    except OSError:  # the caller was killed meanwhile
        return


def read_memory(thread: int, address: int, size: int) -> bytes:
    """Read bytes of a process's memory."""
    fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, address)
    finally:
        os.close(fd)
