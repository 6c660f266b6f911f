"""Tests of caps: when one is reached, and what an evaluation does then."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.caps import Caps, Prices, Usage
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    Replica,
    epoch,
    good_answer,
    json_answer,
    make_environment,
    make_spec,
    make_stores,
    replica,
    until,
    write_dataset,
)
from steelyard_evaluation.engine.engine import Stores, Summary, evaluate
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.plan import Plan, compile_plan

PRICES = Prices(prompt=2.0, completion=10.0)


@pytest.mark.parametrize(
    ("caps", "used", "rows", "in_flight", "reached"),
    [
        pytest.param(Caps(), Usage(10**9, 10**9), 5, 5, None, id="no cap is never reached"),
        pytest.param(Caps(max_tokens=100), Usage(60, 39), 10, 0, None, id="below"),
        pytest.param(Caps(max_tokens=100), Usage(60, 40), 10, 0, "100 tokens", id="at the cap"),
        pytest.param(Caps(max_tokens=100), Usage(40, 39), 10, 2, None, id="with what is in flight, below"),
        pytest.param(
            Caps(max_tokens=100),
            Usage(40, 40),
            10,
            3,
            "80 are used; 3 calls whose use is not known yet may take the rest",
            id="what is in flight counts",
        ),
        pytest.param(Caps(max_tokens=0), Usage(), 0, 0, "0 tokens", id="nothing is allowed"),
        pytest.param(Caps(max_cost=1.0, prices=PRICES), Usage(250_000, 49_999), 1, 0, None, id="cheaper"),
        pytest.param(Caps(max_cost=1.0, prices=PRICES), Usage(250_000, 50_000), 1, 0, "spent", id="dear"),
    ],
)
def test_caps(caps: Caps, used: Usage, rows: int, in_flight: int, reached: str | None) -> None:
    stopped = caps.find_reached(used, rows, in_flight)
    assert stopped is None if reached is None else reached in (stopped.message if stopped else "")


def test_a_cap_of_cost_needs_prices() -> None:
    with pytest.raises(ValueError, match="prices"):
        Caps(max_cost=1.0)
    assert Caps().spend(Usage(1, 1)) is None
    assert PRICES.cost(Usage(1_000_000, 100_000)) == 3.0


def plan_with(caps: Caps, tokens: int = 10, **client: Any) -> Plan:
    """Every answer is said to have used `tokens`."""
    spec = make_spec(workersPerReplica=WORKERS, client={"batchSize": 7, **client})
    return replace(compile_plan(spec), caps=caps, usage=lambda responses: Usage(tokens - 1, len(responses)))


async def run(stores: Stores, plan: Plan, *servers: Replica, attempt: int = 1) -> Summary:
    discovery = FixedDiscovery({server.address for server in servers})
    async with asyncio.timeout(60):
        return await evaluate(plan, stores, discovery, epoch(attempt), make_environment())


WORKERS = 4
"""Calls in flight: by so many rows a cap may be missed, for what answers at once is settled one after the other."""


def rows_done(error: EvaluationFailed) -> int:
    match = re.search(r"(\d+) of 100 rows", str(error))
    assert match
    return int(match[1])


async def steady(row: Mapping[str, Any]) -> web.StreamResponse:
    await asyncio.sleep(0.003)
    return await good_answer(row)


@pytest.mark.parametrize(
    "caps", [Caps(max_tokens=400), Caps(max_cost=400.0, prices=Prices(1e6, 1e6))], ids=["tokens", "cost"]
)
async def test_an_evaluation_stops_at_its_cap_and_goes_on_below_a_higher_one(caps: Caps) -> None:
    stores = make_stores()
    await write_dataset(stores.dataset, 100)
    async with replica(steady) as server:
        with pytest.raises(EvaluationFailed, match=r"the cap of 400") as error:
            await run(stores, plan_with(caps), server)
        assert (error.value.code, error.value.permanent) == ("CapReached", False)
        first = rows_done(error.value)
        assert 40 - WORKERS <= first <= 40 + WORKERS
        with pytest.raises(EvaluationFailed, match="the cap of 400"):  # without a further call
            await run(stores, plan_with(caps), server, attempt=2)
        assert (len(server.asked), server.in_flight) == (first, 0)
        higher = replace(caps, max_tokens=700, max_cost=None)
        with pytest.raises(EvaluationFailed, match="the cap of 700") as error:
            await run(stores, plan_with(higher), server, attempt=3)
        second = rows_done(error.value)
        assert 70 - WORKERS <= second <= 70 + WORKERS
        summary = await run(stores, plan_with(Caps(prices=caps.prices)), server, attempt=4)
        assert (summary.resumed, summary.tokens, len(server.asked)) == (second, Usage(900, 100), 100)
        assert summary.spend == (None if caps.prices is None else 1000)


async def test_a_cap_that_the_last_row_reaches_is_no_stop() -> None:
    stores = make_stores()
    await write_dataset(stores.dataset, 20)
    async with replica(steady) as server:
        assert (await run(stores, plan_with(Caps(max_tokens=200)), server)).tokens.total == 200
        assert (await run(stores, plan_with(Caps(max_tokens=200)), server, attempt=2)).resumed == 20


async def test_tokens_of_parts_that_were_not_counted_are_read_from_them() -> None:
    stores = make_stores()
    await write_dataset(stores.dataset, 50)
    async with replica(steady) as server:
        await run(stores, replace(plan_with(Caps()), usage=None), server)
        summary = await run(stores, plan_with(Caps()), server, attempt=2)
        await stores.output.delete(layout.checkpoint(epoch(2), 0))
        for info in [info async for info in stores.output.list(layout.PARTS)]:
            if info.key.endswith(layout.ROWS_SUFFIX):
                await stores.output.delete(info.key)
        again = await run(stores, plan_with(Caps()), server, attempt=3)
    assert summary.tokens == again.tokens == Usage(450, 50)


async def test_an_evaluation_stops_when_its_time_is_up_although_no_replica_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = make_stores()
    await write_dataset(stores.dataset, 50)
    with pytest.raises(EvaluationFailed, match="0 of 50 rows"):
        await run(stores, plan_with(Caps(max_seconds=0.05)))
    slow, times_up = asyncio.Event(), list[Callable[[], object]]()
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def remember(delay: float, callback: Callable[..., object], *arguments: Any, **options: Any) -> object:
        if delay == 3600:
            times_up.append(lambda: callback(*arguments))
        return call_later(delay, callback, *arguments, **options)

    # The time is up when the test says so: however slow the machine is, ten rows are done by then.
    monkeypatch.setattr(loop, "call_later", remember)

    async def stuck(row: Mapping[str, Any]) -> web.StreamResponse:
        if row["number"] > 9:
            await slow.wait()
        return await good_answer(row)

    async with replica(stuck) as server:
        task = asyncio.create_task(run(stores, plan_with(Caps(max_seconds=3600)), server, attempt=2))
        await until(lambda: len(server.asked) == 14)
        (is_up,) = times_up
        is_up()
        await asyncio.sleep(0.05)
        assert not task.done()  # what is in flight is awaited
        slow.set()
        with pytest.raises(EvaluationFailed, match=r"the cap of 3600 s is reached; 14 of 50"):
            await task


async def test_rows_that_wait_for_another_try_hold_no_stop_up() -> None:
    async def overloaded(row: Mapping[str, Any]) -> web.StreamResponse:
        if row["number"] == 3:
            return json_answer({}, status=503, headers={"Retry-After": "60"})
        return await good_answer(row)

    stores = make_stores()
    await write_dataset(stores.dataset, 50)
    async with replica(overloaded) as server:
        with pytest.raises(EvaluationFailed, match=r"2[01] of 50 rows"):
            await run(stores, plan_with(Caps(max_tokens=200)), server)


def test_tokens_cannot_be_capped_where_they_are_not_counted() -> None:
    with pytest.raises(ValueError, match="usage"):
        replace(compile_plan(make_spec()), caps=Caps(max_tokens=1))
