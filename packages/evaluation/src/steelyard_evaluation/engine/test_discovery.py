"""Places of replicas, and the sessions that they belong to."""

from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from steelyard_common.discovery import (
    DnsDiscovery,
    FileDiscovery,
    ForeignSession,
    HostsDiscovery,
    Identity,
    UrlDiscovery,
    discovery,
    unpin,
)
from steelyard_common.verified_connector import CheckingConnector, json_getter
from steelyard_evaluation.engine import plain
from steelyard_evaluation.engine.doubles import free_host, free_port, identity_server

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


async def test_urls_are_used_as_they_are_except_names_of_http() -> None:
    answers = {"replicas": ["10.0.0.1", "10.0.0.2", "fd00::1"], "six": ["fd00::2"], "gone": []}

    async def resolve(host: str) -> Sequence[str]:
        return answers[host]

    discovery = UrlDiscovery(
        [
            "http://127.0.0.1:1/v1",
            "http://localhost:2/",
            "https://host/v1/",
            "http://replicas:8000/v1",
            "http://six:1",
            "http://gone:1",
            "https://host/v1",
        ],
        resolve,
    )
    assert await discovery.addresses() == {
        "http://127.0.0.1:1/v1",
        "http://localhost:2",
        "https://host/v1",
        "http://replicas:8000/v1#10.0.0.1",
        "http://replicas:8000/v1#10.0.0.2",
        "http://six:1#fd00::2",
    }
    answers["replicas"] = ["10.0.0.2"]  # scaled down
    assert {a for a in await discovery.addresses() if "replicas" in a} == {"http://replicas:8000/v1#10.0.0.2"}


async def test_a_dns_that_does_not_answer_takes_no_replica_away() -> None:
    answers = [["10.0.0.1"]]

    async def resolve(_: str) -> Sequence[str]:
        if not answers:
            raise OSError("try again")
        return answers.pop()

    discovery = UrlDiscovery(["http://host:1"], resolve)
    assert await discovery.addresses() == await discovery.addresses() == {"http://host:1#10.0.0.1"}


@pytest.mark.parametrize(
    "url", ["", "host:8000", "ftp://host", "http://", "http://u:p@host", "http://h?a=b", "http://h#x"]
)
def test_what_is_no_base_url(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as error:
        UrlDiscovery([url])
    assert ":p@" not in str(error.value)


async def test_a_pinned_address_is_connected_to_under_its_name() -> None:
    requested: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        requested.append(request.host)
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/v1", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    host = free_host()
    await web.TCPSite(runner, host, 0).start()
    port = runner.addresses[0][1]
    url, at = unpin(f"http://no-such-name.invalid:{port}/v1#{host}")
    async with (
        aiohttp.ClientSession(connector=CheckingConnector(None, at)) as session,
        session.get(url) as response,
    ):
        assert (response.status, requested) == (200, [f"no-such-name.invalid:{port}"])
    await runner.cleanup()


async def test_dns() -> None:
    assert "http://127.0.0.1:80" in await DnsDiscovery("localhost", 80).addresses()
    assert await DnsDiscovery("no-such-host.invalid", 80).addresses() == set()


async def test_a_replica_names_its_session() -> None:
    host = free_host()
    port = free_port(host)
    async with identity_server("ours", host, port), aiohttp.ClientSession() as session:
        for get_json in (json_getter(session), plain.get_json):
            await Identity(get_json, "ours", port).check(f"http://{host}:1/v1")
            with pytest.raises(ForeignSession, match="belongs to the session 'ours', not to 'theirs'"):
                await Identity(get_json, "theirs", port).check(f"http://{host}:1/v1")
