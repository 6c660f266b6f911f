"""Doubles for tests of the engine and of the code above it: a small dataset, a spec, replicas on loopback."""

import asyncio
import base64
import itertools
import random
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from aiohttp import web

from steelyard_common.discovery import IDENTITY_PATH
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.attempt import Environment
from steelyard_evaluation.engine.engine import Stores
from steelyard_evaluation.engine.manifest import Manifest
from steelyard_evaluation.engine.parts import RETRIED, FinishedRow, encode, parquet
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.replicas import Absence
from steelyard_evaluation.storage.store import Store, open_store, sync_reader
from steelyard_schema.resources import EvaluationResourceSpec

EVALUATION_ID = "5a7e17a7e5a7e17a7e5a7e17a7e5a7e1"
ANSWER: dict[str, pa.DataType] = {"text": pa.string(), "score": pa.float64()}
ANSWER_SCHEMA = pa.schema(ANSWER)


def encode_schema(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def make_spec(
    *,
    schema: pa.Schema = ANSWER_SCHEMA,
    interface: Mapping[str, JsonValue] | None = None,
    **changes: JsonValue,
) -> EvaluationResourceSpec:
    """An Evaluation's spec; `changes` are top-level fields, `interface` fields of the service's interface."""
    runner = {"kind": "mock", "resources": {}}
    service = {
        "id": "5e12f1ce" * 4,
        "account": "a" * 32,
        "name": "double",
        "runner": runner,
        "interface": {
            "endpoint": "generate",
            "outputSchema": {"arrowSchema": encode_schema(schema)},
            **(interface or {}),
        },
    }
    spec = {
        "id": EVALUATION_ID,
        "account": "a" * 32,
        "dataset": "da7a5e7a" * 4,
        "storage": {"inputs": {"dataset": "file:///dataset"}, "output": "file:///output"},
        "inferenceSession": {"inferenceService": service},
        **changes,
    }
    return EvaluationResourceSpec.model_validate(spec)


def make_stores() -> Stores:
    """Make stores in memory, empty."""
    name = secrets.token_hex(8)
    return Stores(open_store(f"memory://{name}/dataset"), open_store(f"memory://{name}/output"))


async def write_dataset(store: Store, rows: int, *, files: int = 1, first: int = 0) -> None:
    """`rows` prompts in `files` files, numbered from `first`."""
    bounds = [first + rows * number // files for number in range(files + 1)]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        table = pa.table(
            {
                "_index_": pa.array(range(start, stop), pa.int64()),
                "prompt": [f"question {index}" for index in range(start, stop)],
                "number": pa.array(range(start, stop), pa.int64()),
            }
        )
        await store.put(f"data/part-{number:03d}.parquet", parquet(table))


@dataclass
class SilentLog:
    """Keeps the messages."""

    lines: list[str] = field(default_factory=list)

    def info(self, message: str, **fields: str | int | float | bool | None) -> None:
        self.lines.append(f"{message} {fields}")

    warning = info


def make_environment(seed: int = 0, identity_port: int | None = None, **absence: float) -> Environment:
    """Chance by `seed`; jitter is a fiftieth of the real one, so that tests do not wait for it."""
    rng = random.Random(seed)
    return Environment(
        now=lambda: datetime.now(UTC),
        jitter=lambda: rng.random() / 50,
        log=SilentLog(),
        identity_port=identity_port,
        absence=Absence(**absence),
    )


@dataclass(frozen=True)
class FixedDiscovery:
    """A discovery whose answer a test sets."""

    urls: set[str]

    async def addresses(self) -> frozenset[str]:
        return frozenset(self.urls)


Answer = Callable[[Mapping[str, JsonValue]], Awaitable[web.StreamResponse]]


async def good_answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
    """Answer as the default interface expects."""
    return json_answer({"text": f"answer {row['number']}", "score": row["number"] / 2})


def cut_short(row: Mapping[str, JsonValue]) -> web.Response:
    """Answers as a server does that is being ended: as far as it got, with status 200."""
    return json_answer({"text": "ans", "score": row["number"] / 2, "finish_reason": "abort"})


def json_answer(body: JsonValue, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(body), status=status, headers=headers, content_type="application/json"
    )


@dataclass
class Replica:
    """A server on loopback: what it was asked, and how it answers now."""

    address: str
    answer: Answer
    asked: list[int] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0
    _runner: web.AppRunner | None = None

    async def ask(self, request: web.Request) -> web.StreamResponse:
        row = orjson.loads(await request.read())
        self.asked.append(row.get("number", -1))
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return await self.answer(row)
        finally:
            self.in_flight -= 1

    async def die(self) -> None:
        """Close the port and every connection, as a killed process does."""
        if self._runner is not None:
            for connection in list(getattr(self._runner.server, "connections", [])):
                connection.force_close()
                if connection.transport is not None:
                    connection.transport.abort()
            runner, self._runner = self._runner, None
            await runner.cleanup()


@asynccontextmanager
async def replica(
    answer: Answer = good_answer,
    *,
    session: str | None = None,
    host: str = "127.0.0.1",
    ports: tuple[int, int] = (0, 0),
) -> AsyncIterator[Replica]:
    """A running replica; with `session`, the second of `ports` answers which session it belongs to."""
    server = Replica("", answer)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/generate", server.ask)
    runner = web.AppRunner(app, shutdown_timeout=0.0, handler_cancellation=True)
    await runner.setup()
    server._runner = runner
    site = web.TCPSite(runner, host, ports[0], reuse_address=True)
    await site.start()
    server.address = f"http://{host}:{runner.addresses[0][1]}"
    async with identity_server(session, host, ports[1]):
        try:
            yield server
        finally:
            await server.die()


@asynccontextmanager
async def identity_server(session: str | None, host: str, port: int) -> AsyncIterator[None]:
    """Serve the identity of a Pod of `session`; nothing without one."""
    if session is None:
        yield
        return

    async def identity(_: web.Request) -> web.Response:
        return json_answer({"session": session})

    app = web.Application()
    app.router.add_get(IDENTITY_PATH, identity)
    runner = web.AppRunner(app, shutdown_timeout=0.0)
    await runner.setup()
    await web.TCPSite(runner, host, port, reuse_address=True).start()
    try:
        yield
    finally:
        await runner.cleanup()


def free_host() -> str:
    """A loopback address that no other process uses by chance."""
    return ".".join(["127", *(str(random.SystemRandom().randrange(2, 250)) for _ in range(3))])


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def epoch(attempt: int) -> str:
    return f"1700000000-5a7e17a7-{attempt:04d}"


def read_rows(output: Store, manifest: Manifest) -> list[tuple[str, int, JsonValue]]:
    """Return the verified rows as readers see them: replication, index and responses, sorted."""
    rows: list[tuple[str, int, JsonValue]] = []
    for entry in manifest.files:
        with sync_reader(output, entry.path) as reader:
            columns = pq.ParquetFile(reader).read().to_pydict()
        rows.extend(zip(columns["_replication_"], columns["_index_"], columns["responses"], strict=True))
    return sorted(rows, key=lambda row: row[:2])


async def write_part(
    output: Store,
    spec: EvaluationResourceSpec,
    seq: int,
    rows: Sequence[tuple[int, int]],
    *,
    attempt: int = 1,
) -> layout.PartName:
    """A part as the engine writes it, with the rows (replication, index) of a dataset numbered from 0."""
    plan = compile_plan(spec)
    finished = [
        FinishedRow(
            position=index * len(plan.replications) + replication,
            index=index,
            replication=plan.replications[replication],
            responses=[{"_response_index_": 0, "text": f"answer {index}", "score": index / 2}],
        )
        for replication, index in rows
    ]
    name = layout.PartName(epoch(attempt), 0, seq)
    encoded = encode(finished, plan.schema)
    await output.create(name.part, encoded.part)
    await output.create(name.rows, encoded.rows)
    return name


def make_expected_rows(
    spec: EvaluationResourceSpec, rows: int, *, first: int = 0
) -> list[tuple[str, int, JsonValue]]:
    """Return the rows that `good_answer` gives for `write_dataset`."""
    return sorted(
        (replication, index, [{"_response_index_": 0, "text": f"answer {index}", "score": index / 2}])
        for replication in compile_plan(spec).replications
        for index in range(first, first + rows)
    )


async def error_rows(output: Store) -> list[JsonValue]:
    """Every row error, by index."""
    return [row for row in await read_error_rows(output) if row["reason"] != RETRIED]


async def read_error_rows(output: Store) -> list[JsonValue]:
    """Every row that was not answered at once, or not at all, by index."""
    rows: list[JsonValue] = []
    async for info in output.list(layout.ERRORS):
        with sync_reader(output, info.key) as reader:
            rows.extend(pq.ParquetFile(reader).read().to_pylist())
    return sorted(rows, key=lambda row: (row["_index_"], row["_replication_"]))


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what another task brings about; the test's own time limit ends it otherwise."""
    while not holds():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.005)
