"""Discovery of a session's replicas: `dns:HOST:PORT` (a headless Service) or `file:PATH` (one address a
line).

Without a platform they are URLs that the user gave.

The evaluation client and the API's inference proxy ask. A name is looked up in the file of `STEELYARD_HOSTS` when that
is set, else in the DNS. Before an address is used, and at each connect, it has to say that it belongs to the expected
session: addresses are reused.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from yarl import URL

REFRESH_SECONDS = 5.0
IDENTITY_PORT = 8001
IDENTITY_PATH = "/steelyard/session"
IDENTITY_SECONDS = 5.0
"""Seconds within which a replica says which session it belongs to."""


Verify = Callable[[], Awaitable[None]]
GetJson = Callable[[URL], Awaitable[object]]
"""Gets the JSON value at a URL within `IDENTITY_SECONDS`; raises OSError, or what its library raises, without one."""


class ForeignSession(Exception):
    """The replica at an address belongs to another session."""


class Discovery(Protocol):
    """Returns the addresses (base URLs) of the replicas that are ready now."""

    async def addresses(self) -> frozenset[str]: ...


def discovery(replicas: str, environment: Mapping[str, str]) -> Discovery:
    """The discovery that `replicas` of a step's configuration names."""
    scheme, _, rest = replicas.partition(":")
    if scheme == "file" and rest:
        return FileDiscovery(Path(rest))
    host, _, port = rest.rpartition(":")
    if scheme != "dns" or not host or not port.isdigit():
        raise ValueError(f"replicas must be dns:HOST:PORT or file:PATH, not {replicas!r}")
    hosts = environment.get("STEELYARD_HOSTS")
    return HostsDiscovery(Path(hosts), host, int(port)) if hosts else DnsDiscovery(host, int(port))


@dataclass(frozen=True)
class FileDiscovery:
    """Base URLs, one a line; used without a cluster."""

    path: Path

    async def addresses(self) -> frozenset[str]:
        lines = (line.strip().rstrip("/") for line in _read(self.path).splitlines())
        return frozenset(
            line if "://" in line else f"http://{line}" for line in lines if line and line[0] != "#"
        )


@dataclass(frozen=True)
class HostsDiscovery:
    """Names as in /etc/hosts: one machine has no DNS of its own."""

    path: Path
    host: str
    port: int

    async def addresses(self) -> frozenset[str]:
        fields = (line.partition("#")[0].split() for line in _read(self.path).splitlines())
        return frozenset(_url(field[0], self.port) for field in fields if self.host in field[1:])


class UrlDiscovery:
    """Base URLs as they were given. Each address that a name of an http one has is a replica of its own.

    Names of https are left alone: the server behind them spreads its own load, and certificates are for the name.
    """

    def __init__(self, urls: Sequence[str], resolve: "Resolve | None" = None) -> None:
        """ValueError names a text that is not a URL; `resolve` is asked instead of the DNS."""
        self._urls = tuple(dict.fromkeys(_check(url) for url in urls))
        self._resolve = resolve or _resolve
        self._known: dict[str, frozenset[str]] = {}

    async def addresses(self) -> frozenset[str]:
        results = await asyncio.gather(*(self._addresses(url) for url in self._urls))
        return frozenset().union(*results)

    async def _addresses(self, url: str) -> frozenset[str]:
        host = URL(url).host or ""
        if not url.startswith("http://") or host == "localhost" or is_ip(host):
            return frozenset({url})
        try:
            hosts = await self._resolve(host)
        except OSError:  # for a while the DNS may not answer: what it said last is more likely than nothing
            return self._known.get(url, frozenset())
        # A name with addresses of both families means the same servers twice.
        self._known[url] = frozenset(pin(url, host) for host in ([h for h in hosts if ":" not in h] or hosts))
        return self._known[url]


Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""A name's IP addresses; OSError when they cannot be found out."""


async def _resolve(host: str) -> Sequence[str]:
    infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in infos]


def pin(url: str, host: str) -> str:
    """The address of the one server at `host` among those that `url` may mean."""
    return f"{url}#{host}"


def unpin(address: str) -> tuple[str, str | None]:
    """The URL to ask at `address`, and the IP address to connect to where it is not the URL's own."""
    url, _, host = address.partition("#")
    return url, host or None


def _check(url: str) -> str:
    try:
        parsed = URL(url)
    except ValueError as error:
        raise ValueError(f"{url!r} is not a URL: {error}") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError(f"{url!r} is not a URL of a service: http://HOST:PORT/PATH or https://HOST/PATH")
    if parsed.user or parsed.password or parsed.query_string or parsed.fragment:
        raise ValueError(f"{parsed.with_user(None)}: a base URL has no user, query or fragment")
    return url.rstrip("/")


def is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class DnsDiscovery:
    """The addresses of a headless Service: those of its ready Pods."""

    host: str
    port: int

    async def addresses(self) -> frozenset[str]:
        try:
            infos = await asyncio.get_running_loop().getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM
            )
        except socket.gaierror:
            return frozenset()
        return frozenset(_url(str(entry[4][0]), self.port) for entry in infos)


class Identity:
    """Asks a replica's Pod for the session that it belongs to."""

    def __init__(self, get_json: GetJson, expected: str, port: int = IDENTITY_PORT) -> None:
        self._get_json = get_json
        self._expected = expected
        self._port = port
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def check(self, address: str) -> None:
        """ForeignSession when `address` belongs to another session; the error of `get_json` when it cannot find out.

        Connections that are opened together ask once. No answer is kept: an address can change hands at any time.
        """
        task = self._asking.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(address))
            self._asking[address] = task
            task.add_done_callback(lambda done: self._take_answer(address, done))
        await asyncio.shield(task)

    def _take_answer(self, address: str, task: "asyncio.Task[None]") -> None:
        self._asking.pop(address, None)
        if not task.cancelled():
            task.exception()  # retrieved here: the caller may be gone

    async def _ask(self, address: str) -> None:
        url = URL(address).with_port(self._port).with_path(IDENTITY_PATH)
        answer = await self._get_json(url)
        session = answer.get("session") if isinstance(answer, dict) else None
        if session != self._expected:
            raise ForeignSession(f"{address} belongs to the session {session!r}, not to {self._expected!r}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
