"""Tests of a scrape of the evaluation client."""

import asyncio
import io
from contextlib import suppress
from datetime import UTC, datetime

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from steelyard.steps.common import Log
from steelyard.steps.evaluation_metrics import Metrics
from steelyard_evaluation.engine.backlog import Work
from steelyard_evaluation.engine.caps import Caps, Prices, Usage
from steelyard_evaluation.engine.doubles import free_host, free_port
from steelyard_evaluation.engine.progress import Progress
from steelyard_evaluation.storage.store import open_store


async def scrape(url: str) -> dict[str, float]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        families = list(text_string_to_metric_families(await response.text()))
    return {
        sample.name.removeprefix("steelyard_evaluation_") + "".join(sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


async def test_a_scrape_shows_the_progress() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    metrics, host = Metrics(), free_host()
    progress = Progress(open_store("memory://metrics"), 10, lambda: now, done=4, retries=3, refused=2)
    progress.tokens, progress.caps = Usage(1000, 500), Caps(prices=Prices(1.0, 2.0))
    progress.clock = lambda: 20.0
    progress.calls[Work(0, 7, 0, b"")] = 2.0
    async with metrics.serve(host, Log("test"), port := free_port(host)):
        url = f"http://{host}:{port}/metrics"
        assert await scrape(url) == {}
        metrics.watch(progress)
        samples = await scrape(url)
    assert (samples["rows"], samples["rows_done"]) == (10, 4)
    assert (samples["retries_total"], samples["refused_total"], samples["row_errors_total"]) == (3, 2, 0)
    assert (samples["tokens_totalprompt"], samples["spend"]) == (1000, 0.002)
    assert (samples["slowest_seconds"], progress.snapshot()["slowest"]) == (18, {"index": 7, "seconds": 18.0})


async def test_a_port_that_is_taken_only_takes_the_metrics_away() -> None:
    host, out = free_host(), io.StringIO()
    port = free_port(host)
    async with Metrics().serve(host, Log("test"), port), Metrics().serve(host, Log("test", out), port):
        pass
    assert "no metrics are served" in out.getvalue()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /metrics HTTP/1.1", 200),
        ("HEAD /metrics?a=b HTTP/1.0", 200),
        ("GET / HTTP/1.1", 404),
        ("POST /metrics HTTP/1.1", 405),
        ("nonsense", 404),
    ],
)
async def test_what_is_answered(request_line: str, status: int) -> None:
    host = free_host()
    async with Metrics().serve(host, Log("test"), port := free_port(host)):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"{request_line}\r\nHost: {host}\r\n\r\n".encode())
        answer = await reader.read()  # up to the end of the connection
        writer.close()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


async def test_connections_without_a_request_do_no_harm() -> None:
    host = free_host()
    async with Metrics().serve(host, Log("test"), port := free_port(host)):
        for garbage in (b"", b"GET", b"x" * 100_000):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(garbage)
            with suppress(ConnectionError):
                writer.write_eof()
                assert await reader.read() == b""
            writer.close()
        assert await scrape(f"http://{host}:{port}/metrics") == {}
