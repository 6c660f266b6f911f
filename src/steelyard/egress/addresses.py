"""Public addresses, distinguished from all others: private, loopback, link-local, multicast, reserved, of
documentation.

The networks are those of IANA's registries of special-purpose addresses. Python's `is_global` is not asked: its tables
differ between versions, and it calls an address global that carries a private one.
"""

import ipaddress
from collections.abc import Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NOT_PUBLIC_4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure answers there every virtual machine about itself
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
# How far the IPv4 address stands from the right end of an address of these networks, in bits.
_CARRIERS = {
    ipaddress.IPv6Network("::ffff:0:0/96"): 0,  # mapped: the operating system connects by IPv4
    ipaddress.IPv6Network("::ffff:0:0:0/96"): 0,  # translated (SIIT)
    ipaddress.IPv6Network("64:ff9b::/96"): 0,  # NAT64
    ipaddress.IPv6Network("2002::/16"): 80,  # 6to4
}


def parse_address(text: str) -> Address:
    """Return a literal address without its zone (`%eth0`). Raises ValueError."""
    return ipaddress.ip_address(text.partition("%")[0])


def find_carried(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, else the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        for network, shift in _CARRIERS.items():
            if address in network:
                return ipaddress.IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    """Return whether the address is one of the public internet, as is the one that it carries."""
    target = find_carried(address)
    if isinstance(target, ipaddress.IPv4Address):
        return not any(target in network for network in _NOT_PUBLIC_4)
    return target in _PUBLIC_6 and not any(target in network for network in _NOT_PUBLIC_6)


def forms(address: Address) -> Iterator[Address]:
    """Yield the address and, where it carries one, that one: a network may be named in either form."""
    yield address
    if (target := find_carried(address)) != address:
        yield target
