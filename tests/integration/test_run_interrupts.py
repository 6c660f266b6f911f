"""Ctrl-C during `steelyard eval run`, as a process: the first one awaits what is in flight, the second one nothing."""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from steelyard.evaluation.doubles import until
from steelyard.runs.doubles import endpoint, write_prompts


@asynccontextmanager
async def command(prompts: Path, url: str, *more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    arguments = [
        "eval",
        "run",
        str(prompts),
        "--url",
        url,
        "--model",
        "m",
        "--output",
        str(prompts.parent / "run"),
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "steelyard.cli.main",
        *arguments,
        *("--concurrency", "4", *more),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: asyncio.subprocess.Process) -> str:
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    return out.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_one_keeps_what_is_answered_and_says_how_to_go_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 100)
    async with endpoint(seconds=0.05) as asked:
        async with command(prompts, asked.url) as process:
            await until(lambda: len(asked.bodies) >= 8)
            process.send_signal(number)
            text = await said(process)
        assert process.returncode == 130
        assert f"to go on: steelyard eval run {tmp_path / 'run'}" in text
        before = len(asked.bodies)
        assert before < 100
        async with command(prompts, asked.url) as process:
            assert f"{before} of them answered already" in await said(process)
        assert process.returncode == 0
        assert len(asked.bodies) == 100  # nothing was paid twice


async def test_the_second_one_ends_it_at_once(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 8)
    async with endpoint(seconds=60.0) as asked, command(prompts, asked.url) as process:
        await until(lambda: len(asked.bodies) >= 4)
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
        assert process.returncode is None  # four calls are in flight
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert "stopped at once" in await said(process)
        assert time.monotonic() - began < 5
    assert process.returncode == 130
