"""The address of a process's metrics, and its content."""

import aiohttp
import pytest
from prometheus_client import Counter

from steelyard.telemetry.monitoring import Address, address, listen_address, serve_metrics
from steelyard_common.errors import SteelyardError
from steelyard_common.figures import Figures


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", None),
        (":8080", Address("", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("host:65535", Address("host", 65535)),
    ],
)
def test_an_address_is_read(text: str, where: Address | None) -> None:
    assert address(text) == where


@pytest.mark.parametrize("text", ["8080", "host", ":", ":-1", ":65536", ":x", ":٣", "host:123456789"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="should be HOST:PORT"):
        address(text)


@pytest.mark.parametrize(
    ("setting", "one_machine", "environment", "where"),
    [
        (None, False, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Address("", 8080)),
        (None, True, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Address("127.0.0.1", 0)),
        (None, False, {}, Address("127.0.0.1", 0)),
        ("", False, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, None),
        ("127.0.0.1:9", False, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Address("127.0.0.1", 9)),
    ],
    ids=["in a cluster", "on one machine", "elsewhere", "nowhere", "as set"],
)
def test_a_pod_is_reached_from_outside_and_a_machine_is_not(
    setting: str | None, one_machine: bool, environment: dict[str, str], where: Address | None
) -> None:
    assert listen_address(setting, one_machine=one_machine, environment=environment) == where


async def test_metrics_and_health_are_served() -> None:
    figures, lacking = Figures(), ["view mongodb://m: no server answers", "leases is forbidden"]

    async def missing() -> list[str]:
        return lacking

    Counter("looks", "Looks.", registry=figures.registry).inc()
    async with (
        serve_metrics(Address("127.0.0.1", 0), figures, missing) as url,
        aiohttp.ClientSession() as http,
    ):

        async def get(page: str) -> tuple[int, str]:
            async with http.get(url.replace("/metrics", page)) as answer:
                return answer.status, await answer.text()

        assert "looks_total 1.0" in (await get("/metrics"))[1]
        assert (await get("/healthz"))[0] == 200
        words = "not ready\nview mongodb://m: no server answers\nleases is forbidden\n"
        assert await get("/readyz") == (503, words)
        lacking.clear()
        assert (await get("/readyz"))[0] == 200


async def test_a_port_that_is_taken_is_said() -> None:
    async with serve_metrics(Address("127.0.0.1", 0), Figures()) as url:
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(SteelyardError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with serve_metrics(Address("127.0.0.1", port), Figures()):
                pass
