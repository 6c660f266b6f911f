"""The runner of a hosted model as a process: its key, its end, and kills amid calls."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from steelyard.steps.test_hosted_model import configuration
from steelyard_common.types import Json
from steelyard_evaluation.engine.doubles import free_host, free_port
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.doubles import KEY, FakeProvider
from steelyard_evaluation.hosted.ledger import Ledger
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.steps import StepConfig

SECONDS = 60.0
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


class Runner:
    """The step as a process, which ends with the block."""

    def __init__(self, folder: Path, config: StepConfig) -> None:
        self.folder = folder
        self.process: asyncio.subprocess.Process | None = None
        self.text = ""
        # An address of its own: between two processes the port is nobody's.
        self.host = free_host()
        self.port = free_port(self.host)
        self.url = f"http://{self.host}:{self.port}"
        (folder / "config.json").write_text(config.model_dump_json())
        secrets = folder / "secrets"
        secrets.mkdir(exist_ok=True)
        (secrets / "provider").write_text(KEY + "\n")
        self.environment = {
            **os.environ,
            "STEELYARD_SECRETS": str(secrets),
            "STEELYARD_TERMINATION_LOG": str(folder / "termination"),
        }

    async def __aenter__(self) -> "Runner":
        return self

    async def __aexit__(self, *error: object) -> None:
        if self.process is not None and self.process.returncode is None:
            await self.end(signal.SIGKILL)

    async def start(self) -> None:
        command = ["-m", "steelyard.steps.hosted_model", "--config", str(self.folder / "config.json")]
        process = self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            f"--host={self.host}",
            f"--port={self.port}",
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with aiohttp.ClientSession() as session, asyncio.timeout(SECONDS):
            while True:
                try:
                    async with session.get(f"{self.url}/ready") as response:
                        assert response.status == 200
                        return
                except aiohttp.ClientConnectorError:
                    assert process.returncode is None, await output_of(process)
                    await asyncio.sleep(0.02)

    async def end(self, number: int) -> None:
        """End it, and wait for its end."""
        assert self.process
        self.process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            self.text = await output_of(self.process)
            await self.process.wait()


async def output_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout
    return (await process.stdout.read()).decode()


@asynccontextmanager
async def provider(**behaviour: Any) -> AsyncIterator[tuple[FakeProvider, str]]:
    made = FakeProvider(**behaviour)
    server = TestServer(made.app())
    await server.start_server()
    yield made, str(server.make_url("/v1"))
    await server.close()


async def ask(session: aiohttp.ClientSession, url: str) -> tuple[int, Json]:
    async with session.post(f"{url}/v1/chat/completions", json=HELLO) as response:
        return response.status, await response.json()


async def spent_in(folder: Path) -> Ledger:
    book = Book(open_store(folder.as_uri()))
    await book.open()
    assert book.last
    return book.last


async def test_it_asks_with_the_key_and_settles_at_its_end(tmp_path: Path) -> None:
    config_of = partial(configuration, folder=tmp_path / "storage", tokens_total=10_000)
    async with provider() as (asked, url), Runner(tmp_path, config_of(url)) as runner:
        await runner.start()
        async with aiohttp.ClientSession() as session:
            statuses = [(await ask(session, runner.url))[0] for _ in range(3)]
        await runner.end(signal.SIGTERM)
    ledger = await spent_in(tmp_path / "storage")
    assert runner.process
    assert (statuses, runner.process.returncode) == ([200] * 3, 0)
    assert (ledger.total.calls, ledger.total.tokens.total, ledger.holds) == (3, asked.total_tokens, {})
    assert KEY not in runner.text
    files = [path for path in (tmp_path / "storage").rglob("*") if path.is_file()]
    assert files
    assert all(KEY.encode() not in path.read_bytes() for path in files)


async def call_until(url: str, *ends: int) -> list[int]:
    """Call until an answer has one of the statuses, or the process is killed; return all statuses."""
    statuses: list[int] = []
    async with aiohttp.ClientSession() as session:
        while not {*ends} & {*statuses}:
            try:
                status, answer = await ask(session, url)
            except aiohttp.ClientError:
                break
            assert status in {200, 402, 429}, answer
            statuses.append(status)
    return statuses


async def test_kills_amid_calls_never_pass_the_cap(tmp_path: Path) -> None:
    """The bill counts the calls sent; calls that a killed process left open count as spent."""
    cap, kills = 20_000, 3
    config_of = partial(configuration, folder=tmp_path / "storage", tokens_total=cap)
    async with (
        asyncio.timeout(3 * SECONDS),
        provider(seconds=0.02) as (asked, url),
        Runner(tmp_path, config_of(url)) as runner,
    ):
        for _ in range(kills):
            await runner.start()
            before = len(asked.bodies)
            callers = [asyncio.create_task(call_until(runner.url)) for _ in range(8)]
            while len(asked.bodies) < before + 12:  # noqa: ASYNC110 - the provider tells nobody
                await asyncio.sleep(0.005)
            await runner.end(signal.SIGKILL)
            await asyncio.gather(*callers)
        await runner.start()
        statuses = await asyncio.gather(*(call_until(runner.url, 402, 429) for _ in range(8)))
        await runner.end(signal.SIGTERM)
    ledger = await spent_in(tmp_path / "storage")
    committed = ledger.sum_committed(datetime.now(UTC))[1].total
    # What the killed ones held may come back, as far as the last one knows: so it is not told that all is spent.
    assert all(answers[-1] in {402, 429} for answers in statuses)
    assert sum(map(len, statuses)) > len(statuses)
    assert len(ledger.holds) == kills
    assert 0 < asked.total_tokens <= committed <= cap


async def test_a_broken_file_says_so(tmp_path: Path) -> None:
    async with Runner(tmp_path, configuration("http://127.0.0.1:1/v1", tmp_path)) as runner:
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(AssertionError):
            await runner.start()
        assert runner.process
        await runner.process.wait()
    said = json.loads((tmp_path / "termination").read_text())
    assert (runner.process.returncode, said["code"]) == (65, "BadConfiguration")
