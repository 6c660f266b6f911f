"""Replicas that do everything wrong at once, at random: each fault occurs, and each row ends as the policy says."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson
import pytest

from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    epoch,
    error_rows,
    make_environment,
    make_expected_rows,
    make_spec,
    make_stores,
    read_error_rows,
    read_rows,
    write_dataset,
)
from steelyard_evaluation.engine.engine import evaluate
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.verify import verify

ADMITTED = 8
ASKED = 16


def http(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {size}", *headers, "", ""]).encode() + body


def good(number: int, padding: int = 0) -> bytes:
    answer = {"text": f"answer {number}", "score": number / 2}
    return http(orjson.dumps(answer | {"padding": "x" * padding} if padding else answer))


PASSING: dict[str, bytes | None] = {
    "503": http(b"", "Retry-After: 0", status="503 Service Unavailable"),
    "half a body": http(b'{"text": "ans', length=400),
    "a wrong length": http(b'{"text": "a"}', length=3),
    "not JSON": http(b"<html>busy</html>"),
    "a wrong shape, once": http(b'{"text": 3}'),
    "a reset": None,
    "chunks that end early": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "no HTTP": b"\x16\x03\x01\x00\xa5",
}
FINAL = {
    "a redirect": http(b"", "Location: https://elsewhere/", status="307 Temporary Redirect"),
    "refused": http(b'{"error": "no"}', status="422 Unprocessable Entity"),
    "a wrong shape": http(b'{"error": {"message": "overloaded"}}'),
}
HARMLESS = ("slow headers", "ten megabytes", "closed keep-alive")


@dataclass
class Misbehaving:
    """Two replicas share it: the fault of each row, and the events so far."""

    faults: dict[int, str]
    occurred: Counter[str] = field(default_factory=Counter)
    tries: Counter[int] = field(default_factory=Counter)
    in_flight: Counter[int] = field(default_factory=Counter)
    hang_after: int = 60

    async def serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                number = orjson.loads(await reader.readexactly(length))["number"]
                self.in_flight[port] += 1
                try:
                    if not await self.answer(port, number, writer):
                        return
                finally:
                    self.in_flight[port] -= 1
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, port: int, number: int, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection may be used again."""
        if self.in_flight[port] > ADMITTED:
            self.occurred["429"] += 1
            writer.write(http(b"", "Retry-After: 0", status="429 Too Many Requests"))
            return True
        if (
            port
            and sum(self.tries.values()) > self.hang_after
            and self.occurred["a hanging replica"] < ADMITTED
        ):
            self.occurred["a hanging replica"] += 1
            await asyncio.sleep(30)
        await asyncio.sleep(0.002)
        self.tries[number] += 1
        fault = self.faults.get(number, "")
        if fault in FINAL:
            self.occurred[fault] += 1
            writer.write(FINAL[fault])
            return False
        if fault in PASSING and self.tries[number] == 1:
            self.occurred[fault] += 1
            if (bad := PASSING[fault]) is None:
                writer.transport.abort()
            else:
                writer.write(bad)
            return fault == "503"
        if fault in HARMLESS:
            self.occurred[fault] += 1
        answer = good(number, 10_000_000 if fault == "ten megabytes" else 0)
        if fault == "slow headers":
            for piece in (answer[:9], answer[9:30], answer[30:]):
                writer.write(piece)
                await asyncio.sleep(0.01)
        else:
            writer.write(answer)
        await writer.drain()
        return fault != "closed keep-alive"


@asynccontextmanager
async def listening(server: Misbehaving) -> AsyncIterator[set[str]]:
    listeners = [
        await asyncio.start_server(lambda r, w, port=port: server.serve(port, r, w), "127.0.0.1", 0)  # type: ignore[misc]
        for port in range(2)
    ]
    try:
        yield {f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}" for listener in listeners}
    finally:
        for listener in listeners:
            listener.close()


@pytest.mark.parametrize(
    ("rows", "faulty"), [(300, 40), pytest.param(20_000, 4000, marks=pytest.mark.soak)], ids=["300", "20,000"]
)
async def test_every_fault_at_once(rows: int, faulty: int) -> None:
    seed = int(os.environ.get("STEELYARD_SEED", "0")) or random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    kinds = [*PASSING, *FINAL, *HARMLESS[::2]]
    bad = rng.sample(range(rows), faulty)
    faults = {row: "ten megabytes" if n < 2 else kinds[n % len(kinds)] for n, row in enumerate(bad)}
    server, stores = Misbehaving(faults), make_stores()
    client = {
        "badRequestPolicy": "Skip",
        "requestTimeoutSeconds": 1,
        "transientErrorRetryDelaySeconds": 1,
        "batchSize": 50,
    }
    spec = make_spec(workersPerReplica=ASKED, client=client)
    await write_dataset(stores.dataset, rows)
    async with listening(server) as addresses, asyncio.timeout(120 + rows / 100):
        summary = await evaluate(
            compile_plan(spec), stores, FixedDiscovery(addresses), epoch(1), make_environment(seed)
        )
    expected = {*PASSING, *FINAL, *HARMLESS, "429", "a hanging replica"}
    assert {fault for fault in expected if not server.occurred[fault]} == set()
    lost = {row for row, fault in faults.items() if fault in FINAL}
    reasons = {record["_index_"]: record["reason"] for record in await error_rows(stores.output)}
    assert set(reasons) == lost
    assert summary.row_errors == len(lost)
    assert {(faults[row], reason) for row, reason in reasons.items()} == {
        ("a redirect", "BadRequest"),
        ("refused", "BadRequest"),
        ("a wrong shape", "MalformedAnswer"),
    }
    tried = {record["_index_"] for record in await read_error_rows(stores.output)}
    assert {row for row, fault in faults.items() if fault in PASSING} <= tried
    manifest = await verify(compile_plan(spec), stores.dataset, stores.output, epoch(1))
    verified = read_rows(stores.output, manifest)
    assert {index for _, index, responses in verified if responses is None} == lost
    assert [row for row in verified if row[1] not in lost] == [
        row for row in make_expected_rows(spec, rows) if row[1] not in lost
    ]
