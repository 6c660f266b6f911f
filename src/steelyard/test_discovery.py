"""Where replicas are, and whose they are."""

from pathlib import Path

import aiohttp
import pytest

from steelyard.discovery import (
    DnsDiscovery,
    FileDiscovery,
    ForeignSession,
    HostsDiscovery,
    Identity,
    discovery,
)
from steelyard.evaluation.doubles import free_host, free_port, identity_server

HOSTS = """
127.0.0.1 localhost
127.200.0.1 digits.default.svc digits.default.svc.cluster.local digits.default
127.200.0.2 digits.default.svc # the second replica
127.200.0.3 other.default.svc
#127.200.0.4 digits.default.svc
"""


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        ("dns:a.b.svc:8000", {"STEELYARD_HOSTS": "/hosts"}, HostsDiscovery(Path("/hosts"), "a.b.svc", 8000)),
        ("dns:a.b.svc:8000", {}, DnsDiscovery("a.b.svc", 8000)),
        ("file:/replicas", {}, FileDiscovery(Path("/replicas"))),
    ],
)
def test_the_kinds_of_discovery(text: str, environment: dict[str, str], expected: object) -> None:
    assert discovery(text, environment) == expected


@pytest.mark.parametrize("text", ["", "dns:", "dns:host", "dns:host:port", "file:", "http://host:80"])
def test_what_names_no_discovery(text: str) -> None:
    with pytest.raises(ValueError, match="replicas must be"):
        discovery(text, {})


async def test_a_name_in_the_hosts_file_has_all_its_addresses(tmp_path: Path) -> None:
    hosts = HostsDiscovery(tmp_path / "hosts", "digits.default.svc", 8000)
    assert await hosts.addresses() == set()
    (tmp_path / "hosts").write_text(HOSTS)
    assert await hosts.addresses() == {"http://127.200.0.1:8000", "http://127.200.0.2:8000"}


async def test_a_file_of_replicas(tmp_path: Path) -> None:
    (tmp_path / "replicas").write_text("http://host:8000/v1/\n# a comment\n\n127.0.0.1:9\n")
    assert await FileDiscovery(tmp_path / "replicas").addresses() == {
        "http://host:8000/v1",
        "http://127.0.0.1:9",
    }


async def test_dns() -> None:
    assert "http://127.0.0.1:80" in await DnsDiscovery("localhost", 80).addresses()
    assert await DnsDiscovery("no-such-host.invalid", 80).addresses() == set()


async def test_a_replica_tells_whose_it_is() -> None:
    host = free_host()
    port = free_port(host)
    async with identity_server("ours", host, port), aiohttp.ClientSession() as session:
        await Identity(session, "ours", port).check(f"http://{host}:1/v1")
        with pytest.raises(ForeignSession, match="belongs to the session 'ours', not to 'theirs'"):
            await Identity(session, "theirs", port).check(f"http://{host}:1/v1")
