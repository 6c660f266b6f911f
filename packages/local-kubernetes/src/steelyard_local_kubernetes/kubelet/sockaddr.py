"""Socket addresses as programs pass them, and which of them mean the Pod's own. `binds.py` asks.

Nothing here touches a socket. Runs in the shim: standard library only.
"""

import struct
from typing import NamedTuple

UNSPECIFIED, INET, INET6 = 0, 2, 10
STREAM, DATAGRAM = 1, 2
_MAPPED = b"\0" * 10 + b"\xff\xff"  # before an IPv4 address inside an IPv6 one
_ANYWHERE = frozenset((b"\0" * 4, b"\0" * 16, _MAPPED + b"\0" * 4))
_LOOPBACK = frozenset((b"\x7f\0\0\1", b"\0" * 15 + b"\1", _MAPPED + b"\x7f\0\0\1"))
_NOBODYS_PORTS = frozenset((1, 80))  # as in connect(("8.8.8.8", 80)), connect(("10.255.255.255", 1))


class Address(NamedTuple):
    """A socket address of IPv4 or IPv6."""

    family: int
    port: int
    host: bytes
    head: bytes = b""  # flow information of IPv6
    rest: bytes = b""  # its scope

    @property
    def everywhere(self) -> bool:
        return self.host in _ANYWHERE

    @property
    def loopback(self) -> bool:
        return self.host in _LOOPBACK

    @property
    def here(self) -> bool:
        """Return True for an address of this machine alone."""
        return self.everywhere or self.loopback or self.host.removeprefix(_MAPPED)[:1] == b"\x7f"

    @property
    def asks(self) -> bool:
        """Return True where no datagram is sent: programs "connect" to learn their own address."""
        return self.family == INET and self.port in _NOBODYS_PORTS

    def pack(self) -> bytes:
        return (
            struct.pack("=H", self.family) + struct.pack(">H", self.port) + self.head + self.host + self.rest
        )


def parse(raw: bytes) -> Address | None:
    """Parse the bytes that a program passed; None unless they are an address of IPv4 or IPv6."""
    if len(raw) < 8:
        return None
    family, port = struct.unpack_from("=H", raw)[0], struct.unpack_from(">H", raw, 2)[0]
    # Linux takes a bind of no family to 0.0.0.0 for one of IPv4, for the sake of old programs.
    if family == INET or (family == UNSPECIFIED and raw[4:8] == b"\0" * 4):
        return Address(INET, port, raw[4:8], rest=b"\0" * 8)
    if family == INET6 and len(raw) >= 24:
        return Address(INET6, port, raw[8:24], raw[4:8], raw[24:28].ljust(4, b"\0"))
    return None


def own(address: Address, host: bytes) -> Address:
    """The same port at the Pod's address, for a socket of the same family."""
    return address._replace(host=host if address.family == INET else _MAPPED + host)


def rewrite_bind(address: Address, host: bytes, kind: int, *, v6_only: bool) -> Address | None:
    """Return the address that a bind becomes; None when it stays as it is.

    A socket for IPv6 alone has no such address to go to: it gets some port of ::1, which no other program needs, since
    a program that makes one makes another for IPv4 as well. Datagrams without a port may be meant for anywhere, and
    stay.
    """
    if not is_shared(address) or kind not in (STREAM, DATAGRAM) or (kind == DATAGRAM and address.port == 0):
        return None
    if v6_only:
        return address._replace(host=b"\0" * 15 + b"\1", port=0) if address.everywhere else None
    return own(address, host)


def is_shared(address: Address) -> bool:
    """Return whether two Pods that bind the address would collide."""
    return address.everywhere or (address.loopback and address.port != 0)
