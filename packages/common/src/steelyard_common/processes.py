"""Processes as /proc shows them: names, children, memory; and the end that they have with their parents.

Used by the kubelet, by its shim, which runs without site-packages, and by whoever starts model servers and installers:
standard library only.
"""

import ctypes
import os
import signal
from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STAT_BYTES = 4096  # more than 52 numbers and a name of 64 bytes can take


def boot_id() -> str:
    """Changes with every boot: a record of an earlier boot speaks of no process of this one."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the command's name (state first), or None when there is no process."""
    text = _stat(pid)
    return text.decode().split() if text is not None else None


def _stat(pid: int | str) -> bytes | None:
    # Read for every process of the machine: an open file of Python's would take twice as long.
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(descriptor, _STAT_BYTES)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    # The command's name may hold spaces and brackets: only the last bracket ends it.
    return text[text.rindex(b")") + 2 :]


def start_time(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot: with it a reused pid is recognised. None
    for a zombie.
    """
    fields = stat_fields(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def parents() -> dict[int, int]:
    """Every process and its parent."""
    processes = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (text := _stat(entry)) is not None:
            processes[int(entry)] = int(text.split(None, 2)[1])
    return processes


def tree(roots: Iterable[int], parent_of: dict[int, int]) -> set[int]:
    """The roots that exist, and all below them."""
    children: dict[int, list[int]] = {}
    for pid, parent in parent_of.items():
        children.setdefault(parent, []).append(pid)
    pids: set[int] = set()
    waiting = [pid for pid in roots if pid in parent_of]
    while waiting:
        pid = waiting.pop()
        if pid not in pids:
            pids.add(pid)
            waiting.extend(children.get(pid, ()))
    return pids


def descendants(pid: int) -> set[int]:
    """All below a process, without itself."""
    return tree([pid], parents()) - {pid}


def socket_inodes(pid: int) -> set[int]:
    """Inodes of the sockets that a process holds; empty where it is gone, or another user's."""
    inodes: set[int] = set()
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return inodes
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(int(target[8:-1]))
    return inodes


def resident(pids: Iterable[int]) -> int:
    """Bytes of memory that the processes hold; shared pages count once each process."""
    pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                pages += int(file.read().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")


def proportional(pids: Iterable[int]) -> int:
    """Bytes of memory that the processes hold; a page shared by n counts an n-th. Exact, and slow."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
        except PermissionError:
            # Another user's process, by set-uid for one: too much is counted rather than nothing.
            total += resident([pid])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def arguments(pid: int) -> list[str]:
    """Return the command line of a process; empty where it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(argument) for argument in file.read().split(b"\0")]
    except OSError:
        return []


def with_argument(prefix: str) -> set[int]:
    """Shims of the Pods below a folder: processes whose last-but-one argument is an intent there."""
    start, pids = os.fsencode(prefix), set()
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
        except OSError:
            continue
        if b"-I" in arguments[:2] and any(argument.startswith(start) for argument in arguments[5:6]):
            pids.add(int(entry))
    return pids


def with_environment(marker: str) -> set[int]:
    """Processes whose environment at their start held the entry `marker`: how strays of a lost shim are found."""
    needle, pids = marker.encode(), set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if needle in file.read().split(b"\0"):
                    pids.add(int(entry))
        except OSError:  # gone, or another user's
            continue
    return pids


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent ends, however that ends."""
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, in the place of the machine's init.

    Children do not inherit it.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
