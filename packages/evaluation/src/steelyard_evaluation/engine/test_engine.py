"""The engine against real servers on loopback: its requests, its output, and how it ends."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout, output
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    Replica,
    SilentLog,
    epoch,
    error_rows,
    free_host,
    free_port,
    good_answer,
    identity_server,
    json_answer,
    make_environment,
    make_expected_rows,
    make_spec,
    make_stores,
    read_error_rows,
    read_rows,
    replica,
    until,
    write_dataset,
)
from steelyard_evaluation.engine.engine import Stores, Summary, evaluate
from steelyard_evaluation.engine.errors import EvaluationFailed, Fenced
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.progress import Progress
from steelyard_evaluation.engine.verify import verify
from steelyard_schema.resources import EvaluationResourceSpec


@pytest.fixture
def stores() -> Stores:
    return make_stores()


async def run(stores: Stores, spec: EvaluationResourceSpec, *replicas: Replica, attempt: int = 1) -> Summary:
    discovery = FixedDiscovery({replica.address for replica in replicas})
    async with asyncio.timeout(60):
        return await evaluate(compile_plan(spec), stores, discovery, epoch(attempt), make_environment())


async def verified_rows(stores: Stores, spec: EvaluationResourceSpec) -> list[tuple[str, int, JsonValue]]:
    manifest = await verify(compile_plan(spec), stores.dataset, stores.output, epoch(9))
    return read_rows(stores.output, manifest)


def always_bad(index: int) -> Any:
    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if row["number"] == index:
            return json_answer({"error": "too long"}, status=400)
        return await good_answer(row)

    return answer


async def test_every_row_and_replication_is_asked_once_and_kept(stores: Stores) -> None:
    spec = make_spec(replications=2, client={"batchSize": 50})
    await write_dataset(stores.dataset, 150, files=3)
    async with replica() as one, replica() as two:
        summary = await run(stores, spec, one, two)
    assert summary == Summary(total=300, resumed=0, row_errors=0, retries=0)
    assert sorted(one.asked + two.asked) == sorted([*range(150)] * 2)
    assert min(len(one.asked), len(two.asked)) > 100
    assert await verified_rows(stores, spec) == make_expected_rows(spec, 150)
    progress = orjson.loads(await stores.output.get(layout.PROGRESS))
    assert (progress["total"], progress["done"], progress["inFlight"]) == (300, 300, 0)
    assert sum(replica["done"] for replica in progress["replicas"].values()) == 300


async def test_a_second_attempt_asks_for_nothing_that_is_there(stores: Stores) -> None:
    spec = make_spec()
    await write_dataset(stores.dataset, 20)
    async with replica() as server:
        await run(stores, spec, server)
        assert await run(stores, spec, server, attempt=2) == Summary(20, 20, 0, 0)
        assert len(server.asked) == 20


async def test_no_more_calls_are_in_flight_than_allowed(stores: Stores) -> None:
    both_full = asyncio.Event()

    async def until_full(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if one.in_flight == two.in_flight == 3:
            both_full.set()
        await both_full.wait()
        await asyncio.sleep(0.005)  # for calls that should not come
        return await good_answer(row)

    await write_dataset(stores.dataset, 60)
    async with replica(until_full) as one, replica(until_full) as two:
        await run(stores, make_spec(workersPerReplica=3), one, two)
    assert (one.peak, two.peak) == (3, 3)


async def test_a_refused_row_aborts_and_what_was_finished_is_kept(stores: Stores) -> None:
    spec = make_spec(workersPerReplica=4, client={"batchSize": 1000})
    await write_dataset(stores.dataset, 50)
    async with replica(always_bad(30)) as server:
        with pytest.raises(EvaluationFailed, match=r"index 30.*status 400.*too long") as error:
            await run(stores, spec, server)
    assert (error.value.code, error.value.permanent, error.value.row) == ("BadRequest", True, "30")
    count = len(server.asked)
    async with replica() as server:
        summary = await run(stores, spec, server, attempt=2)
    assert summary.resumed >= count - 4
    assert summary.resumed >= 25
    assert await verified_rows(stores, spec) == make_expected_rows(spec, 50)


async def test_a_refused_row_is_skipped_and_recorded(stores: Stores) -> None:
    spec = make_spec(replications=2, client={"badRequestPolicy": "Skip"})
    await write_dataset(stores.dataset, 50)
    async with replica(always_bad(30)) as server:
        summary = await run(stores, spec, server)
    assert summary == Summary(100, 0, row_errors=2, retries=0)
    rows = await verified_rows(stores, spec)
    assert [index for _, index, responses in rows if responses is None] == [30, 30]
    assert [row for row in rows if row[1] != 30] == [
        row for row in make_expected_rows(spec, 50) if row[1] != 30
    ]
    for record in await error_rows(stores.output):
        assert (record["_index_"], record["status"], record["attempts"]) == (30, 400, 1)
        assert (record["reason"], record["body"]) == ("BadRequest", '{"error":"too long"}')
        assert record["replica"] == server.address


async def test_transient_errors_are_tried_again(stores: Stores) -> None:
    calls = 0

    async def flaky(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        nonlocal calls
        calls += 1
        if calls % 20 == 0:
            return json_answer({"error": "overloaded"}, status=503, headers={"Retry-After": "0"})
        return await good_answer(row)

    spec = make_spec()
    await write_dataset(stores.dataset, 200)
    async with replica(flaky) as one, replica(flaky) as two:
        summary = await run(stores, spec, one, two)
    assert summary.retries == calls // 20 > 5
    assert await verified_rows(stores, spec) == make_expected_rows(spec, 200)


async def test_a_row_that_was_tried_again_keeps_its_history(stores: Stores) -> None:
    tries = 0

    async def at_the_thirteenth(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        nonlocal tries
        tries += row["number"] == 3
        if row["number"] == 3 and tries <= 12:
            return json_answer({"no": 1}, status=503 if tries < 12 else 429, headers={"Retry-After": "0"})
        return await good_answer(row)

    await write_dataset(stores.dataset, 8)
    async with replica(at_the_thirteenth) as server:
        summary = await run(stores, make_spec(client={"transientErrorRetryDelaySeconds": 1}), server)
    (row,) = await read_error_rows(stores.output)
    assert (row["_index_"], row["reason"], row["attempts"]) == (3, "Retried", 13)
    assert [attempt["status"] for attempt in row["tries"]] == [503] * 9 + [429]
    assert {attempt["replica"] for attempt in row["tries"]} == {server.address}
    assert (summary.row_errors, summary.refused, await error_rows(stores.output)) == (0, 1, [])
    assert await verified_rows(stores, make_spec()) == make_expected_rows(make_spec(), 8)


async def test_a_row_that_reaches_the_retry_limit_is_a_row_error(stores: Stores) -> None:
    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        return await good_answer(row) if row["number"] != 3 else json_answer({}, status=500)

    spec = make_spec(client={"badRequestPolicy": "Skip", "transientErrorRetryLimit": 2})
    await write_dataset(stores.dataset, 8)
    async with replica(answer) as server:
        summary = await run(stores, spec, server)
    assert (summary.row_errors, summary.retries) == (1, 2)
    (record,) = await error_rows(stores.output)
    assert (record["_index_"], record["reason"], record["attempts"]) == (3, "RetriesExhausted", 3)
    assert [attempt["message"] for attempt in record["tries"]] == ["status 500"] * 3
    assert server.asked.count(3) == 3


async def test_replicas_that_all_fail_end_the_attempt_which_may_be_repeated(stores: Stores) -> None:
    async def broken(_: Mapping[str, JsonValue]) -> web.StreamResponse:
        return json_answer({}, status=500)

    await write_dataset(stores.dataset, 100)
    async with replica(broken) as one:
        with pytest.raises(
            EvaluationFailed, match="more than 1 times in a row; the last: status 500"
        ) as error:
            await run(
                stores, make_spec(client={"transientErrorRetryLimit": 1, "badRequestPolicy": "Skip"}), one
            )
    assert (error.value.code, error.value.permanent) == ("ReplicasFailing", False)


async def test_rows_that_fail_while_others_are_answered_end_themselves_and_not_the_attempt(
    stores: Stores,
) -> None:
    """Rows that fail are the last ones: then the replica fails at each call."""

    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        return json_answer({}, status=500) if row["number"] % 10 == 5 else await good_answer(row)

    spec = make_spec(workersPerReplica=1, client={"badRequestPolicy": "Skip", "transientErrorRetryLimit": 2})
    await write_dataset(stores.dataset, 100)
    async with replica(answer) as server:
        summary = await run(stores, spec, server)
    assert (summary.row_errors, summary.retries) == (10, 20)
    assert {record["reason"] for record in await error_rows(stores.output)} == {"RetriesExhausted"}


async def test_a_server_that_is_away_for_long_costs_no_row(stores: Stores) -> None:
    """Refused connections do not count as tries of a row, whatever the retry limit."""
    seen: list[Progress] = []
    spec = make_spec(client={"transientErrorRetryLimit": 1, "badRequestPolicy": "Skip"})
    await write_dataset(stores.dataset, 30)
    environment, host = replace(make_environment(), watch=seen.append), free_host()
    port = free_port(host)
    replicas = FixedDiscovery({f"http://{host}:{port}"})
    going = asyncio.create_task(evaluate(compile_plan(spec), stores, replicas, epoch(1), environment))
    await until(lambda: bool(seen) and seen[0].retries >= 20)
    async with replica(host=host, ports=(port, 0)), asyncio.timeout(60):
        assert (await going).row_errors == 0
    assert await verified_rows(stores, spec) == make_expected_rows(spec, 30)


async def test_a_server_that_stays_away_ends_the_attempt_after_its_time(stores: Stores) -> None:
    await write_dataset(stores.dataset, 3)
    plan = replace(compile_plan(make_spec()), wait_for_server=0.1)
    environment, host = make_environment(), free_host()
    with pytest.raises(EvaluationFailed, match=r"no connection for 0\.1 s; the last try: cannot") as error:
        await evaluate(
            plan, stores, FixedDiscovery({f"http://{host}:{free_port(host)}"}), epoch(1), environment
        )
    assert (error.value.code, error.value.permanent) == ("ReplicasFailing", False)
    assert isinstance(environment.log, SilentLog)
    assert len([line for line in environment.log.lines if "no server listens at" in line]) == 1


async def test_the_total_time_is_limited_from_the_first_answer(stores: Stores) -> None:
    async def stuck(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if row["number"] > 0:
            await asyncio.sleep(60)
        return await good_answer(row)

    spec = make_spec(client={"totalTimeoutSeconds": 1})
    await write_dataset(stores.dataset, 5)
    async with replica(stuck) as server:
        with pytest.raises(EvaluationFailed, match="1 s after the first call") as error:
            await run(stores, spec, server)
    assert (error.value.code, error.value.permanent) == ("Timeout", True)
    async with replica() as server:
        assert (await run(stores, spec, server, attempt=2)).resumed == 1


async def test_a_cancelled_attempt_keeps_its_answers(stores: Stores) -> None:
    async def some(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if row["number"] >= 10:
            await asyncio.sleep(60)
        return await good_answer(row)

    spec = make_spec()
    await write_dataset(stores.dataset, 20)
    async with replica(some) as server:
        seen: list[Progress] = []
        environment = replace(make_environment(), watch=seen.append)
        discovery = FixedDiscovery({server.address})
        task = asyncio.create_task(evaluate(compile_plan(spec), stores, discovery, epoch(1), environment))
        await until(lambda: len(server.asked) == 20 and seen[0].done == 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with replica() as server:
        assert (await run(stores, spec, server, attempt=2)).resumed == 10


async def test_of_two_writers_one_wins_and_the_other_ends_itself(stores: Stores) -> None:
    taken_over = asyncio.Event()

    async def until_taken_over(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if len(one.asked) >= 12:
            await taken_over.wait()
        return await good_answer(row)

    async def takes_over(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        taken_over.set()
        await asyncio.sleep(0.02)
        return await good_answer(row)

    spec = make_spec(workersPerReplica=2, client={"batchSize": 5, "duplicateOutputPolicy": "Error"})
    await write_dataset(stores.dataset, 60)
    async with replica(until_taken_over) as one, replica(takes_over) as two:
        first = asyncio.create_task(run(stores, spec, one, attempt=1))
        async with asyncio.timeout(30):
            while not [info async for info in stores.output.list(layout.PARTS)]:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.001)
        second = await run(stores, spec, two, attempt=2)
        with pytest.raises(Fenced, match="ends itself"):
            await first
    assert 0 < second.resumed < 60
    assert await verified_rows(stores, spec) == make_expected_rows(spec, 60)


async def test_an_epoch_is_claimed_once(stores: Stores) -> None:
    await write_dataset(stores.dataset, 5)
    async with replica() as server:
        await run(stores, make_spec(), server, attempt=2)
        for attempt in (1, 2):
            with pytest.raises(Fenced):
                await run(stores, make_spec(), server, attempt=attempt)


async def test_an_output_belongs_to_its_inputs(stores: Stores) -> None:
    await write_dataset(stores.dataset, 5)
    async with replica() as server:
        await run(stores, make_spec(), server)
        await write_dataset(stores.dataset, 6)
        with pytest.raises(EvaluationFailed, match="with other inputs") as error:
            await run(stores, make_spec(), server, attempt=2)
    assert (error.value.code, error.value.permanent) == ("InputsChanged", True)


async def test_a_row_without_a_request_is_a_row_error(stores: Stores) -> None:
    interface = {"inputPipeline": [{"kind": "TransformJSON", "configuration": {"q": "$.absent"}}]}
    await write_dataset(stores.dataset, 2)
    async with replica() as server:
        summary = await run(
            stores, make_spec(interface=interface, client={"badRequestPolicy": "Skip"}), server
        )
    assert (summary.row_errors, server.asked) == (2, [])
    assert {record["reason"] for record in await error_rows(stores.output)} == {"BadInput"}


async def test_pipelines_shape_what_is_sent_and_what_is_kept(stores: Stores) -> None:
    async def choices(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        assert set(row) == {"q", "number"}
        return json_answer({"choices": [{"text": row["q"]}, {"text": "other"}]})

    interface = {
        "inputPipeline": [
            {"kind": "TransformJSON", "configuration": {"q": "$.prompt", "number": "$.number"}}
        ],
        "outputPipeline": [
            {"kind": "ExplodeCollections", "configuration": {"collections": ["choices"]}},
            {"kind": "FlattenHierarchy", "configuration": {"addPrefix": False}},
        ],
    }
    spec = make_spec(interface=interface)
    await write_dataset(stores.dataset, 3)
    async with replica(choices) as server:
        await run(stores, spec, server)
    rows = await verified_rows(stores, spec)
    assert rows[1][2] == [
        {"_response_index_": 0, "text": "question 1", "score": None},
        {"_response_index_": 1, "text": "other", "score": None},
    ]


@pytest.mark.parametrize(
    ("rows", "message"), [(None, "there is no Parquet file"), (b"nonsense", "is not a Parquet file")]
)
async def test_a_dataset_that_is_none(stores: Stores, rows: bytes | None, message: str) -> None:
    if rows is not None:
        await stores.dataset.put("data.parquet", rows)
    with pytest.raises(EvaluationFailed, match=message):
        await run(stores, make_spec())


async def test_an_empty_dataset_is_complete_at_once(stores: Stores) -> None:
    await write_dataset(stores.dataset, 0)
    spec = make_spec()
    assert await run(stores, spec) == Summary(0, 0, 0, 0)
    assert await verified_rows(stores, spec) == []


async def test_rows_wait_no_longer_than_the_part_interval(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PART_SECONDS", 0.02)
    release = asyncio.Event()

    async def last_waits(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if row["number"] == 9:
            await release.wait()
        return await good_answer(row)

    await write_dataset(stores.dataset, 10)
    async with replica(last_waits) as server:
        task = asyncio.create_task(run(stores, make_spec(), server))
        while not [info async for info in stores.output.list(layout.PARTS)]:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
        release.set()
        await task


async def test_a_replica_of_another_session_is_never_called(stores: Stores) -> None:
    host, other = free_host(), free_host()
    ports = (free_port(host), free_port(host))
    spec = make_spec()
    await write_dataset(stores.dataset, 20)
    async with (
        replica(session=spec.id, host=host, ports=ports) as ours,
        replica(session="another", host=other, ports=ports) as theirs,
    ):
        discovery = FixedDiscovery({ours.address, theirs.address})
        environment = make_environment(identity_port=ports[1])
        await evaluate(compile_plan(spec), stores, discovery, epoch(1), environment)
    assert (len(ours.asked), theirs.asked) == (20, [])


async def test_an_address_that_changes_hands_is_not_called_again(stores: Stores) -> None:
    spec = make_spec(workersPerReplica=1, client={"batchSize": 5})
    host, other = free_host(), free_host()
    ports = (free_port(host), free_port(host))
    await write_dataset(stores.dataset, 40)

    async def slow(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        await asyncio.sleep(0.03)
        return await good_answer(row)

    async with replica(slow, session=spec.id, host=other, ports=ports) as steady:
        async with replica(session=spec.id, host=host, ports=ports) as first:
            discovery = FixedDiscovery({steady.address, first.address})
            environment = make_environment(identity_port=ports[1])
            task = asyncio.create_task(evaluate(compile_plan(spec), stores, discovery, epoch(1), environment))
            await until(lambda: len(first.asked) >= 3)
        async with replica(session="another", host=host, ports=ports) as thief:
            await task
            assert thief.asked == []
    assert await verified_rows(stores, spec) == make_expected_rows(spec, 40)


async def test_a_referenced_session_that_ends_fails_the_evaluation(stores: Stores) -> None:
    spec = make_spec(inferenceSessionReference="5e551077" * 4)
    environment = make_environment(start_seconds=0.1, gone_seconds=0.1)
    await write_dataset(stores.dataset, 5)
    with pytest.raises(EvaluationFailed, match="never had a replica") as error:
        await evaluate(compile_plan(spec), stores, FixedDiscovery(set()), epoch(1), environment)
    assert (error.value.code, error.value.permanent) == ("SessionEnded", True)


async def test_the_session_of_a_reference_is_the_referenced_one() -> None:
    async with identity_server(None, "127.0.0.1", 0):
        assert compile_plan(make_spec(inferenceSessionReference="5e551077" * 4)).session == "5e551077" * 4
        assert compile_plan(make_spec()).session == make_spec().id
