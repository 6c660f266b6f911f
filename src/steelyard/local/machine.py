"""Requirements of `steelyard up` on the machine, checked before anything is written, with a helpful refusal."""

import contextlib
import os
import random
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from steelyard_common import processes
from steelyard_common.errors import UsageError

NETWORK_FILE_SYSTEMS = re.compile(
    r"nfs4?|cifs|smb\d|smbfs|ceph|lustre|gpfs|afs|glusterfs|beegfs|davfs|ocfs2|gfs2|ncpfs"
    r"|fuse\.(sshfs|glusterfs|ceph|s3fs|rclone|gcsfuse)"
)

_LISTENS = "0A"  # as the kernel's tables of sockets have it
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LEAST_PORT, NODE_PORTS, PORT_TRIES = 20_000, 30_000, 100
"""First port that is tried for an address that is kept, the first one of Services, and the number of tries."""


def check_machine(platform: str = sys.platform) -> None:
    """Refuses anything but Linux."""
    if platform != "linux":
        raise UsageError(
            f"steelyard up runs on Linux only; this is {platform}. Use a Linux machine or virtual machine, "
            "or a Kubernetes cluster."
        )


def check_file_system(folder: Path, mounts: str | None = None, *, name: str = "--state-dir") -> None:
    """Refuses a network file system: neither locks nor SQLite's fsync can be trusted there."""
    kind = file_system(folder, mounts if mounts is not None else Path("/proc/self/mountinfo").read_text())
    if NETWORK_FILE_SYSTEMS.fullmatch(kind):
        raise UsageError(
            f"{name} {folder}: lies on a network file system ({kind}), where locks and the database are not "
            "safe. Choose a folder on a local disk."
        )


def check_engines(addresses: Mapping[str, str], mounts: str | None = None) -> None:
    """The same for the files that settings name, each by the name of its setting."""
    for name, address in addresses.items():
        scheme, _, path = address.partition(":")
        if scheme == "sqlite":
            check_file_system(Path(path).resolve().parent, mounts, name=f"settings: {name}:")


def disk_folders(state: Path, addresses: Iterable[str]) -> list[Path]:
    """The state folder, and a folder of each other disk that the addresses of engines (`sqlite:`, `file:`) lie on."""
    folders = [state]
    for address in addresses:
        scheme, _, path = address.partition(":")
        if scheme in ("sqlite", "file") and path.startswith("/"):
            place = Path("/" + path.lstrip("/"))
            folders.append(next(folder for folder in (place, *place.parents) if folder.exists()))
    disks: dict[int, Path] = {}
    for folder in folders:
        disks.setdefault(folder.stat().st_dev, folder)
    return list(disks.values())


def file_system(folder: Path, mounts: str) -> str:
    """The type of the file system that holds `folder`, by the text of a mountinfo file; empty when unknown."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        # Blanks in a mount point are written as octal escapes.
        point = before.split()[4].encode().decode("unicode_escape")
        if (
            folder.is_relative_to(point) and len(point) >= best
        ):  # of two mounts on one point the later one is seen
            best, kind = len(point), after.split()[0]
    return kind


def reserve_lasting_port(ephemeral: Path = EPHEMERAL) -> socket.socket:
    """Reserve a free port that the kernel gives to no other process: one below the range of ephemeral ports.

    Clients keep the address of the platform. A port of that range could be another process's, even as the local end
    of a connection, by the time a part of the platform that was killed starts again.
    """
    try:
        first = int(ephemeral.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 0
    ports = list(range(LEAST_PORT, min(first, NODE_PORTS)))
    random.SystemRandom().shuffle(ports)
    reserved = (bound for port in ports[:PORT_TRIES] if (bound := _reserve(port, shared=False)) is not None)
    return next(reserved, None) or _bind(0, shared=False)


def reserve_port(port: int) -> socket.socket | None:
    """Reserve a port of loopback until the socket is closed: a process of ours may listen on it, and nobody else
    chooses it meanwhile. None where another process has it.
    """
    return _reserve(port, shared=True)


def _reserve(port: int, *, shared: bool) -> socket.socket | None:
    try:
        return _bind(port, shared=shared)
    except OSError:
        return None


def _bind(port: int, *, shared: bool) -> socket.socket:
    """Return a socket that is bound and never listens: another one with SO_REUSEADDR may bind the port, and listen.

    Without `shared` the port is refused where somebody has reserved it, or where connections of it are ending.
    """
    with contextlib.ExitStack() as opened:
        bound = opened.enter_context(socket.socket())
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.pop_all()
    return bound


def listener_name(port: int) -> str:
    """Return the process that listens on a TCP port, for a sentence: `pid 12 (python)`; `another process` where it is
    not known, as one of another user.
    """
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening(Path("/proc/net", table), port)}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if inodes & processes.socket_inodes(int(pid)):
            with contextlib.suppress(OSError):
                name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
                return f"pid {pid} ({name if name.isprintable() else '?'})"
    return "another process"


def _listening(table: Path, port: int) -> Iterator[int]:
    """Yield the inodes of the sockets that listen on a port, by the kernel's table."""
    with contextlib.suppress(OSError):  # no IPv6
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield int(fields[9])


def lasting_port() -> int:
    """Return a port like that of `reserve_lasting_port`, which another process may choose as well."""
    with reserve_lasting_port() as reserved:
        return socket_port(reserved)


def socket_port(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])
