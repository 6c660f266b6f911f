"""Servers that misbehave: each fault ends as the policy says, with the row named, and costs no other row."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import call
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    epoch,
    error_rows,
    good_answer,
    json_answer,
    make_environment,
    make_expected_rows,
    make_spec,
    make_stores,
    read_rows,
    replica,
    until,
    write_dataset,
)
from steelyard_evaluation.engine.engine import Stores, Summary, evaluate
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.verify import verify
from steelyard_schema.resources import EvaluationResourceSpec

BAD = 7
"""The row that a misbehaving server misbehaves for."""


def http(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {size}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def good_bytes(number: int) -> bytes:
    return http(orjson.dumps({"text": f"answer {number}", "score": number / 2}))


FAULTS = {
    "half a body": http(b'{"text": "ans', length=400),
    "a body that is too long": http(b'{"text": "a"}', length=3),
    "no JSON": http(b"<html>busy</html>"),
    "a wrong shape": http(b'{"text": 3}'),
    "another shape": http(b'{"error": {"message": "overloaded"}}'),
    "a list": http(b"[1, 2]"),
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "an endless header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20000 + b"\r\n\r\n",
    "a redirect": http(b"", "Location: http://127.0.0.1:1/", status="302 Found"),
    "refused": http(b'{"detail": "no"}', status="422 Unprocessable Entity"),
    "broken": http(b"oops", status="500 Internal Server Error"),
    "overloaded": http(b"", "Retry-After: 0", status="429 Too Many Requests"),
    "chunks that end early": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "an unknown encoding": http(b"abc", "Content-Encoding: gzip"),
}


@dataclass
class RawServer:
    """Speaks HTTP by hand: `faults` says what row gets what bytes, and for how many of its tries."""

    faults: Mapping[int, tuple[bytes, int]]
    address: str = ""
    tries: Counter[int] = field(default_factory=Counter)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(h.split(b":")[1])
                    for h in head.split(b"\r\n")
                    if h.lower().startswith(b"content-length")
                )
                number = orjson.loads(await reader.readexactly(length))["number"]
                self.tries[number] += 1
                bad, times = self.faults.get(number, (b"", 0))
                if self.tries[number] <= times:
                    writer.write(bad)
                    await writer.drain()
                    break
                writer.write(good_bytes(number))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def raw_server(faults: Mapping[int, tuple[bytes, int]]) -> AsyncIterator[RawServer]:
    server = RawServer(faults)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server


@pytest.fixture
def stores() -> Stores:
    return make_stores()


def spec_with(**client: JsonValue) -> EvaluationResourceSpec:
    return make_spec(workersPerReplica=4, client={"transientErrorRetryDelaySeconds": 1, **client})


async def run(stores: Stores, spec: EvaluationResourceSpec, *addresses: str) -> Summary:
    async with asyncio.timeout(60):
        return await evaluate(
            compile_plan(spec), stores, FixedDiscovery(set(addresses)), epoch(1), make_environment()
        )


async def check_all_but(stores: Stores, spec: EvaluationResourceSpec, rows: int, bad: set[int]) -> None:
    manifest = await verify(compile_plan(spec), stores.dataset, stores.output, epoch(1))
    verified = read_rows(stores.output, manifest)
    assert [row for row in verified if row[1] not in bad] == [
        r for r in make_expected_rows(spec, rows) if r[1] not in bad
    ]
    assert {index for _, index, responses in verified if responses is None} == bad
    assert {record["_index_"] for record in await error_rows(stores.output)} == bad


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_that_stays_is_a_row_error_and_all_others_are_done(stores: Stores, fault: str) -> None:
    spec = spec_with(badRequestPolicy="Skip", transientErrorRetryLimit=3)
    await write_dataset(stores.dataset, 20)
    async with raw_server({BAD: (FAULTS[fault], 99)}) as server:
        summary = await run(stores, spec, server.address)
    assert summary.row_errors == 1
    await check_all_but(stores, spec, 20, {BAD})
    (record,) = await error_rows(stores.output)
    # The server closes after each bad answer: a try on a connection that was kept may end before it reads the request.
    assert 1 <= server.tries[BAD] <= record["attempts"] <= 4
    assert record["message"]


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"a redirect", "refused"}))
async def test_a_fault_that_passes_costs_a_try_and_no_row(stores: Stores, fault: str) -> None:
    spec = spec_with()
    await write_dataset(stores.dataset, 20)
    async with raw_server({BAD: (FAULTS[fault], 1)}) as server:
        summary = await run(stores, spec, server.address)
    assert (summary.row_errors, server.tries[BAD]) == (0, 2)
    await check_all_but(stores, spec, 20, set())


@pytest.mark.parametrize("fault", ["refused", "no JSON", "broken"])
async def test_under_abort_the_row_is_named(stores: Stores, fault: str) -> None:
    await write_dataset(stores.dataset, 20)
    async with raw_server({BAD: (FAULTS[fault], 99)}) as server:
        with pytest.raises(EvaluationFailed, match=f"index {BAD}, replication 0") as error:
            await run(stores, spec_with(transientErrorRetryLimit=2), server.address)
    assert (error.value.code, error.value.row) == ("BadRequest", str(BAD))


async def test_an_answer_that_is_too_long_is_a_row_error(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "MAX_ANSWER_BYTES", 1000)
    spec = spec_with(badRequestPolicy="Skip")
    await write_dataset(stores.dataset, 10)
    async with raw_server({BAD: (http(b" " * 1001), 99)}) as server:
        await run(stores, spec, server.address)
    await check_all_but(stores, spec, 10, {BAD})


async def test_a_replica_that_dies_costs_only_its_calls_in_flight(stores: Stores) -> None:
    async def steady(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        await asyncio.sleep(0.002)
        return await good_answer(row)

    spec = spec_with()
    await write_dataset(stores.dataset, 300)
    async with replica(steady) as one, replica(steady) as two:
        task = asyncio.create_task(run(stores, spec, one.address, two.address))
        await until(lambda: len(one.asked) >= 40)
        await one.die()
        summary = await task
    assert summary.row_errors == 0
    assert len(one.asked) + len(two.asked) <= 300 + 4
    await check_all_but(stores, spec, 300, set())


async def test_a_replica_that_hangs_costs_only_its_calls_in_flight(stores: Stores) -> None:
    hanging = False

    async def hangs(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if hanging:
            await asyncio.sleep(60)
        return await good_answer(row)

    spec = spec_with(requestTimeoutSeconds=5, batchSize=10)
    await write_dataset(stores.dataset, 200)
    async with replica(hangs) as one, replica() as two:
        task = asyncio.create_task(run(stores, spec, one.address, two.address))
        await until(lambda: len(one.asked) >= 20)
        hanging = True
        await task
    assert len(one.asked) + len(two.asked) <= 200 + 2 * 4
    await check_all_but(stores, spec, 200, set())


async def test_a_replica_that_was_away_is_used_again(stores: Stores) -> None:
    down = asyncio.Event()
    calls = 0

    async def ill_for_a_while(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        nonlocal calls
        calls += 1
        return json_answer({}, status=503) if 20 <= calls < 30 else await good_answer(row)

    spec = spec_with()
    await write_dataset(stores.dataset, 100)
    async with replica(ill_for_a_while) as only:
        summary = await run(stores, spec, only.address)
    assert (summary.row_errors, summary.retries) == (0, 10)
    assert not down.is_set()
    await check_all_but(stores, spec, 100, set())


async def test_rows_wait_for_the_first_replica(stores: Stores) -> None:
    spec = spec_with(totalTimeoutSeconds=60)
    discovery = FixedDiscovery(set())
    await write_dataset(stores.dataset, 10)
    task = asyncio.create_task(evaluate(compile_plan(spec), stores, discovery, epoch(1), make_environment()))
    await asyncio.sleep(0.1)
    async with replica() as server:
        discovery.urls.add(server.address)
        assert (await task).total == 10


FINAL = {"a redirect", "refused"}
MIXTURES = st.dictionaries(
    st.integers(0, 29), st.tuples(st.sampled_from(sorted(FAULTS)), st.integers(1, 2)), max_size=10
)


@settings(max_examples=15, deadline=None)
@given(MIXTURES)
async def test_any_mixture_of_faults(faults: dict[int, tuple[str, int]]) -> None:
    stores, spec = make_stores(), spec_with(badRequestPolicy="Skip", batchSize=7)
    await write_dataset(stores.dataset, 30)
    async with raw_server({row: (FAULTS[name], times) for row, (name, times) in faults.items()}) as server:
        await run(stores, spec, server.address)
    for row, (name, times) in faults.items():  # each fault occurred, as often as it should
        assert server.tries[row] == (1 if name in FINAL else times + 1)
    await check_all_but(stores, spec, 30, {row for row, (name, _) in faults.items() if name in FINAL})
