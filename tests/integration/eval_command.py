"""`steelyard eval` as a process of its own, with an endpoint that counts every call and misbehaves on demand."""

import asyncio
import json
import os
import re
import signal
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.folder import open_run

IN_FLIGHT = 32
PART = 1000
"""Rows of one part: at most one is answered but not durable yet."""
MODEL = "tests/counting"
Misbehaviour = Callable[[web.Request, int, int], "web.StreamResponse | None"]
"""Function from a request, its row and the number of requests for that row to an answer in place of the right
one.
"""


def answer_to(row: int) -> str:
    return f"answer {row * 7919 % 10_007}"


def write_prompts(path: Path, rows: int) -> Path:
    """Three answers of four are right."""
    table = pa.table(
        {
            "prompt": [f"question {row}" for row in range(rows)],
            "target": [answer_to(row) if row % 4 else "something else" for row in range(rows)],
        }
    )
    pq.write_table(table, path)
    return path


@dataclass
class Endpoint:
    """An endpoint at `url`: how often each row was asked, and how often it was answered."""

    url: str = ""
    seconds: float = 0.01
    size: int = 0
    """Characters that an answer is longer than it need be."""
    misbehaves: Misbehaviour = lambda _request, _row, _asked: None
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Calls wait while it is not set."""
    asked: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    in_flight: int = 0
    peak: int = 0

    def __post_init__(self) -> None:
        self.answers.set()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        row = int(str(body["messages"][-1]["content"]).split()[-1])
        self.asked[row] += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            if (bad := self.misbehaves(request, row, self.asked[row])) is not None:
                return bad
            await asyncio.sleep(self.seconds)
            await self.answers.wait()
        finally:
            self.in_flight -= 1
        self.answered[row] += 1
        return web.Response(body=good_body(row, self.size), content_type="application/json")

    @property
    def calls(self) -> int:
        return self.asked.total()

    async def until_asked(self, calls: int) -> None:
        while self.calls < calls:  # noqa: ASYNC110 - the calls come from another process
            await asyncio.sleep(0.002)

    async def until_in_flight(self, calls: int) -> None:
        while self.in_flight < calls:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.002)


def good_body(row: int, size: int = 0) -> bytes:
    message = {"role": "assistant", "content": answer_to(row), "reasoning_content": "x" * size or None}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return orjson.dumps(
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    )


@asynccontextmanager
async def endpoint(tls: ssl.SSLContext | None = None, **changes: JsonValue) -> AsyncIterator[Endpoint]:
    made = Endpoint(**changes)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", made.chat)
    runner = web.AppRunner(app, shutdown_timeout=0.0, handler_cancellation=True, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls, backlog=1024)
    await site.start()
    made.url = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield made
    finally:
        await runner.cleanup()


@dataclass(frozen=True)
class CommandEnd:
    """End of a command: its status and its output."""

    status: int
    out: str
    said: str
    """Text on its standard error."""

    @property
    def events(self) -> Sequence[Mapping[str, JsonValue]]:
        """Events of `--display json`."""
        return [orjson.loads(line) for line in self.out.splitlines() if re.match(r"\{.*\}$", line)]


@dataclass(frozen=True)
class RunFolder:
    """Prompts, a run's folder, and a scratch folder: what a machine has of a run."""

    folder: Path
    rows: int

    @property
    def prompts(self) -> Path:
        return self.folder / "prompts.parquet"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def write(self) -> "RunFolder":
        self.folder.mkdir(exist_ok=True)
        write_prompts(self.prompts, self.rows)
        return self

    def arguments(self, server: Endpoint, *more: str) -> list[str]:
        made = [
            "eval",
            "run",
            str(self.prompts),
            "--url",
            server.url,
            "--model",
            MODEL,
            "--rubric",
            "exact-match",
        ]
        return [*made, "--output", str(self.run), "--concurrency", str(IN_FLIGHT), "--display", "json", *more]

    async def start(
        self,
        server: Endpoint,
        *more: str,
        under: Sequence[str] = ("-m", "steelyard.cli.main"),
        **environment: str,
    ) -> asyncio.subprocess.Process:
        """The command, or a program around it."""
        return await self.start_any(*self.arguments(server, *more), under=under, **environment)

    async def start_any(
        self, *arguments: str, under: Sequence[str] = ("-m", "steelyard.cli.main"), **environment: str
    ) -> asyncio.subprocess.Process:
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *under,
            *arguments,
            cwd=self.folder,
            env=kept | {"TMPDIR": str(scratch), "NO_COLOR": "1"} | environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )

    async def go(self, server: Endpoint, *more: str, **environment: str) -> CommandEnd:
        return await ended(await self.start(server, *more, **environment))

    def verified_rows(self) -> list[tuple[int, int, str | None]]:
        """Index, replication and text of every row of the verified output, sorted."""
        rows = open_run(self.run).rows()
        return sorted(
            (row.index, row.replication, row.responses[0]["text"] if row.responses else None) for row in rows
        )

    def expected(self, replications: int = 1) -> list[tuple[int, int, str | None]]:
        return [(row, number, answer_to(row)) for row in range(self.rows) for number in range(replications)]

    def check(self, but: Sequence[int] = ()) -> None:
        """Every row is there once and right, but for those that are errors; so are the scores and the numbers."""
        assert self.verified_rows() == [
            (row, number, None if row in but else text) for row, number, text in self.expected()
        ]
        manifest = open_run(self.run).manifest
        assert (manifest.rows.duplicates, manifest.rows.missing, manifest.rows.errors) == (0, 0, len(but))
        scores = pq.read_table(self.run / "scores.parquet").to_pydict()
        assert dict(zip(scores["_index_"], scores["correct"], strict=True)) == {
            row: bool(row % 4) and row not in but for row in range(self.rows)
        }
        assert json.loads((self.run / "report.json").read_bytes())
        assert leftovers(self.run) == []


def leftovers(folder: Path) -> list[Path]:
    """Half-written files that will never be finished, in sight of who lists the verified output."""
    return [path for path in (folder / "outputs").glob("*.parquet") if path.name.startswith(".#")]


async def ended(process: asyncio.subprocess.Process) -> CommandEnd:
    out, err = await process.communicate()
    assert process.returncode is not None
    return CommandEnd(process.returncode, out.decode(), err.decode())


async def kill(process: asyncio.subprocess.Process, number: int = signal.SIGKILL) -> CommandEnd:
    if process.returncode is None:
        process.send_signal(number)
    return await ended(process)
