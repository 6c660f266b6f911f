"""Checks of an address outside against a policy: the scheme, the host, and what the host's name resolves to.

`check_url` is for an address that a user names; it asks no name server. A connection is checked when it is opened, by
the connector, client or pool of this package: a name may lead elsewhere a moment after a check.
"""

import asyncio
import ipaddress
import re
import socket
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from steelyard.egress.addresses import Address, forms, is_public, parse_address
from steelyard_schema.egress import EgressPolicy, EgressRefused

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
# What browsers and C libraries read as an IPv4 address: 127.1, 0x7f000001, 2130706433.
_NUMBER = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)")
_URL = re.compile(r"[!-~]+")
_LONGEST_URL = 2048
_MOST_NAMED = 10


def check_url(policy: EgressPolicy, url: str, field: str = "url") -> None:
    """Raise EgressRefused for a URL that the policy does not allow, as far as the URL itself says so."""
    if len(url) > _LONGEST_URL or not _URL.fullmatch(url) or "\\" in url:
        fault = f"should be a URL of at most {_LONGEST_URL} printable ASCII characters"
        raise EgressRefused(fault, field=field, value=url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EgressRefused(f"is not a URL: {error}", field=field, value=url) from error
    if parts.username is not None or parts.password is not None:
        # The value is left out: it holds a password.
        raise EgressRefused("should have no user or password", field=field, value=parts.scheme + "://...@...")
    check_target(policy, parts.scheme, parts.hostname or "", port, field=field, value=url)


def check_target(
    policy: EgressPolicy, scheme: str, host: str, port: int | None, *, field: str = "url", value: str = ""
) -> None:
    """Raise EgressRefused for a scheme, host and port that the policy does not allow; `value` is the whole address."""
    host = host.lower().removesuffix(".").removeprefix("[").removesuffix("]")
    value = value or f"{scheme}://{host}"
    if scheme not in _PORTS:
        raise EgressRefused("should begin with https://", field=field, value=value)
    literal = _literal(host)
    if literal is None and (not _NAME.fullmatch(host) or _NUMBER.fullmatch(host)):
        raise EgressRefused("should name a host, or an address in full", field=field, value=value)
    port = port or _PORTS[scheme]
    if not any(_matches(pattern, scheme, host, port) for pattern in policy.hosts):
        raise EgressRefused(
            f"is not allowed: {policy.setting} has no pattern for {scheme}://{host}:{port}; {_allowance_text(policy)}",
            field=field,
            value=value,
            allowed=policy.hosts,
        )
    if literal is not None:
        check_address(policy, host, host=host, field=field, value=value)


def check_address(
    policy: EgressPolicy, address: str, *, host: str = "", field: str = "url", value: str = ""
) -> None:
    """Raise EgressRefused for a literal address that is neither public nor of a network that the policy names."""
    try:
        parsed = parse_address(address)
    except ValueError as error:
        raise EgressRefused("is not an address", field=field, value=address) from error
    if is_public(parsed) or _is_named(policy, parsed):
        return
    # The address is not shown: a caller may only be guessing names of a network behind this one.
    where = "is" if host == address else "leads to"
    raise EgressRefused(
        f"{where} an address that is not public; others than public ones are allowed by egress.networks, which names "
        f"{', '.join(policy.networks) or 'none'}",
        field=field,
        value=value or host or address,
        allowed=policy.networks,
    )


async def resolve(policy: EgressPolicy, host: str, port: int) -> list[str]:
    """Return the literal addresses of a host. Raises EgressRefused if one is not allowed, and OSError.

    Connect to these, never to the name again: it may lead elsewhere by then.
    """
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return _check_addresses(policy, host, infos)


def resolve_blocking(policy: EgressPolicy, host: str, port: int) -> list[str]:
    """Return the literal addresses of a host, as `resolve` does, for libraries that block."""
    return _check_addresses(policy, host, socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def _check_addresses(policy: EgressPolicy, host: str, infos: list[Any]) -> list[str]:
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    # One that is not allowed condemns all: a name that leads inside as well as outside is a trap or an error.
    for address in addresses:
        check_address(policy, address, host=host)
    if not addresses:
        raise OSError(f"{host} has no address")
    return addresses


@lru_cache(maxsize=64)
def _parse_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(map(ipaddress.ip_network, texts))


def _is_named(policy: EgressPolicy, address: Address) -> bool:
    """Return whether the address is of a network that the policy names."""
    return any(form in network for form in forms(address) for network in _parse_networks(policy.networks))


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _matches(pattern: str, scheme: str, host: str, port: int) -> bool:
    plain = pattern.startswith("http://")
    if scheme == "http" and not plain:
        return False
    name, _, only = _host_and_port(pattern.removeprefix("http://"))
    if only and int(only) != port:
        return False
    if name == "*":
        return True
    if name.startswith("*."):
        return host.endswith(name[1:]) and len(host) >= len(name)
    return host == name or (_literal(name) is not None and _literal(name) == _literal(host))


def _host_and_port(text: str) -> tuple[str, str, str]:
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        return name, ":", rest.removeprefix(":")
    return text.partition(":")


def _allowance_text(policy: EgressPolicy) -> str:
    if not policy.hosts:
        return "none is allowed there"
    rest = len(policy.hosts) - _MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"allowed are {', '.join(policy.hosts[:_MOST_NAMED])}{more}"
