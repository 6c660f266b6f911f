"""A Pod's ports as a forwarded connection finds them."""

import asyncio
import socket
from pathlib import Path

from steelyard_common import processes
from steelyard_local_kubernetes.kubelet.records import PodFolder

_LISTENS = "0A"
_LOOPBACK = "0100007F"  # 127.0.0.1, as the kernel's table has it
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(folder: PodFolder, ip: str, port: int) -> Connection:
    """A connection to a Pod's port, on its own address or, where one of its programs listens there, 127.0.0.1."""
    try:
        return await asyncio.open_connection(ip, port)
    except ConnectionRefusedError:
        # On a cluster 127.0.0.1 is the Pod's own; here all Pods share it, and must not reach each other's.
        if not await asyncio.to_thread(_listens_on_loopback, folder, port):
            raise
    return await asyncio.open_connection("127.0.0.1", port)


def _listens_on_loopback(folder: PodFolder, port: int) -> bool:
    address = f"{_LOOPBACK}:{port:04X}"
    sockets = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == address and fields[3] == _LISTENS:
            sockets.add(int(fields[9]))
    runs = (folder.run(container) for container in folder.containers())
    shims = [run.shim for run in runs if run is not None and run.state == "running"]
    return any(
        sockets & processes.socket_inodes(pid) for shim in shims for pid in processes.descendants(shim)
    )


def connection_error_text(error: OSError, ip: str, port: int) -> str:
    """Return why there is no connection, as Go says it."""
    text = (
        "connection refused" if isinstance(error, ConnectionRefusedError) else (error.strerror or str(error))
    )
    family = "tcp6" if ":" in ip else "tcp4"
    return f"dial {family} {ip}:{port}: connect: {text}"


def is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 1 << 16


def say_no_more(writer: asyncio.StreamWriter) -> None:
    """End our side of a connection; the other may go on."""
    if writer.can_write_eof() and not writer.is_closing():
        try:
            writer.write_eof()
        except OSError:  # it has gone meanwhile
            writer.transport.abort()


def without_delay(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
