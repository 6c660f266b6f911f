"""The limit of one replica, in simulated time."""

import asyncio
import heapq
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    epoch,
    good_answer,
    json_answer,
    make_environment,
    make_spec,
    make_stores,
    replica,
    write_dataset,
)
from steelyard_evaluation.engine.engine import evaluate
from steelyard_evaluation.engine.limit import AUTO, Concurrency, Limit
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.progress import Progress

INSTANT = 0.001


Serve = Callable[[int, float], tuple[float, bool]]
"""Function from the number of calls in flight and the time of sending to the duration and whether the call is
refused.
"""


@dataclass
class Simulation:
    """Calls of one replica."""

    limit: Limit
    serve: Serve
    overload: bool = True
    now: float = 0.0
    answered: int = 0
    failed: int = 0
    values: list[int] = field(default_factory=list)

    def run(self, seconds: float) -> "Simulation":
        ends: list[tuple[float, int, float, bool]] = []
        admitted = number = 0
        while self.now < seconds:
            while len(ends) < self.limit.value:
                takes, refused = self.serve(admitted + 1, self.now)
                admitted += not refused
                number += 1
                heapq.heappush(ends, (self.now + takes, number, self.now, refused))
            in_flight = len(ends)
            self.now, _, sent_at, refused = heapq.heappop(ends)
            admitted -= not refused
            if refused:
                self.failed += 1
                self.limit.note_failure(self.now, sent_at, in_flight, overload=self.overload)
            else:
                self.answered += 1
                self.limit.note_answer(self.now, sent_at, in_flight)
            self.values.append(self.limit.value)
        return self


def admitting(most: int, latency: float) -> Serve:
    return lambda nth, _: (INSTANT, True) if nth > most else (latency, False)


@pytest.mark.parametrize("overload", [True, False], ids=["it says 429", "it says 500"])
@pytest.mark.parametrize(
    "concurrency", [Concurrency(64, adaptive=True), Concurrency(256, adaptive=True), AUTO]
)
def test_a_server_that_admits_half_of_what_is_asked(concurrency: Concurrency, overload: bool) -> None:
    most = concurrency.most // 2
    done = Simulation(Limit(concurrency), admitting(most, 0.05), overload).run(15)
    assert done.answered >= 0.9 * most * 15 / 0.05
    assert done.failed <= 0.05 * (done.answered + done.failed)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 64), st.integers(8, 200), st.floats(0.02, 2.0), st.integers(0, 1 << 20))
def test_whatever_a_server_admits(admits: int, capacity: int, latency: float, seed: int) -> None:
    rng = random.Random(seed)
    start = min(16, capacity)
    limit = Limit(Concurrency(capacity, adaptive=True, start=start))

    def serve(nth: int, _: float) -> tuple[float, bool]:
        return (INSTANT, True) if nth > admits else (latency * rng.uniform(0.5, 1.5), False)

    done = Simulation(limit, serve).run(200 * latency)
    assert all(1 <= value <= capacity for value in done.values)
    assert done.answered >= 0.8 * min(admits, capacity) * 200
    assert done.failed <= 2 * start + 0.1 * done.answered


def test_one_that_takes_all_gets_all_after_a_few_round_trips() -> None:
    done = Simulation(Limit(AUTO), lambda *_: (0.1, False)).run(0.75)
    assert (done.values[0], done.values[-1]) == (21, 1024)


def test_a_few_failures_by_chance_do_not_count_as_overload() -> None:
    rng = random.Random(7)
    limit = Limit(Concurrency(64, adaptive=True))
    serve = lambda *_: (0.05, False) if rng.random() > 0.05 else (INSTANT, True)  # noqa: E731
    done = Simulation(limit, serve, overload=False).run(20)
    assert sum(done.values) / len(done.values) > 48


def test_a_queue_is_noticed_where_nothing_is_refused() -> None:
    """The server works on 32 at once, and lets the others wait."""
    free_at = [0.0] * 32

    def serve(_: int, now: float) -> tuple[float, bool]:
        end = max(heapq.heappop(free_at), now) + 0.05
        heapq.heappush(free_at, end)
        return end - now, False

    done = Simulation(Limit(AUTO), serve).run(30)
    late = done.values[len(done.values) // 2 :]
    assert 32 <= sum(late) / len(late) <= 128
    assert done.answered >= 0.9 * 30 * 32 / 0.05


def test_longer_answers_alone_are_no_trouble() -> None:
    """Batched inference: each call takes longer when others run, and more get done all the same."""
    done = Simulation(Limit(AUTO), lambda nth, _: (0.05 * (1 + nth / 100), False)).run(60)
    assert done.values[-1] >= 256


H100 = {1: 10.0, 16: 107.0, 64: 261.0, 256: 411.0, 1024: 430.0}
TWO_CORES = {1: 60.0, 16: 200.0, 64: 270.6, 256: 293.8, 1024: 263.3}
"""Answers a second by calls in flight of two real vLLM servers, measured from 64 calls on."""


def seconds_of(limit: Limit, curve: Mapping[int, float], rows: int, spread: float) -> float:
    """Time of a run on a server that shares its rate among the calls in flight, as batched inference does."""
    rng, now, shared = random.Random(1), 0.0, 0.0
    ends, sent = list[tuple[float, int, float]](), 0
    while sent < rows or ends:
        while sent < rows and len(ends) < limit.value:
            sent += 1
            heapq.heappush(ends, (shared + rng.gammavariate(spread**-2, spread**2), sent, now))
        in_flight = len(ends)
        end, _, sent_at = heapq.heappop(ends)
        now += (end - shared) * in_flight / rate_at(curve, in_flight)
        shared = end
        limit.note_answer(now, sent_at, in_flight)
    return now


def rate_at(curve: Mapping[int, float], calls: int) -> float:
    """Rate between the measured points, by the logarithm of the calls in flight."""
    upper = next(level for level in curve if level >= calls)
    lower = max((level for level in curve if level <= calls), default=upper)
    part = math.log(calls / lower) / math.log(upper / lower) if upper > lower else 0.0
    return curve[lower] + part * (curve[upper] - curve[lower])


@pytest.mark.parametrize("spread", [0.1, 0.5], ids=["answers alike", "answers of many lengths"])
@pytest.mark.parametrize("curve", [H100, TWO_CORES], ids=["an H100", "two cores"])
def test_on_the_curve_of_a_real_server_it_comes_close_to_the_best_fixed_number(
    curve: Mapping[int, float], spread: float
) -> None:
    best = min(seconds_of(Limit(Concurrency(calls)), curve, 20_000, spread) for calls in (64, 256, 1024))
    assert seconds_of(Limit(AUTO), curve, 20_000, spread) <= best / 0.95


def test_a_short_run_reaches_almost_the_best_fixed_number() -> None:
    """A thousand rows on two cores take three seconds: neither the ramp nor an early ceiling may cost much of them."""
    best = min(seconds_of(Limit(Concurrency(calls)), TWO_CORES, 1_000, 0.5) for calls in (64, 256, 1024))
    assert seconds_of(Limit(AUTO), TWO_CORES, 1_000, 0.5) <= best / 0.95


def test_two_waves_in_the_time_of_one_are_no_higher_rate() -> None:
    """A server that gets slower with more calls: a rate overestimated at first would hold the limit above its best."""
    curve = {1: 10.0, 64: 200.0, 256: 100.0, 1024: 50.0}
    best = seconds_of(Limit(Concurrency(64)), curve, 6_000, 0.001)
    assert seconds_of(Limit(AUTO), curve, 6_000, 0.001) <= best / 0.8


def test_calls_that_were_in_flight_together_shrink_it_once() -> None:
    limit = Limit(Concurrency(100, adaptive=True))
    limit.note_failure(1.0, 0.5, 100, overload=True)
    assert limit.value == 80
    limit.note_failure(1.1, 0.6, 60, overload=True)
    assert limit.value == 59  # its place is given up, no more
    limit.note_failure(1.1, 0.6, 20, overload=True)
    assert limit.value == 50
    limit.note_failure(1.2, 1.1, 50, overload=True)
    assert limit.value == 40


def test_a_fixed_one_stays_as_it_is() -> None:
    limit = Limit(Concurrency(10))
    limit.note_failure(1.0, 0.5, 10, overload=True)
    limit.note_answer(1.0, 0.5, 10)
    assert limit.value == 10


@pytest.mark.parametrize(("most", "start"), [(0, None), (4, 5), (4, 0)])
def test_what_is_no_concurrency(most: int, start: int | None) -> None:
    with pytest.raises(ValueError, match="is none"):
        Concurrency(most, start=start)


async def test_an_evaluation_settles_below_what_a_replica_refuses() -> None:
    busy = 0

    async def half(row: Mapping[str, Any]) -> web.StreamResponse:
        nonlocal busy
        if busy >= 16:
            return json_answer({}, status=429, headers={"Retry-After": "0"})
        busy += 1
        # Rounds of the loop and not a time: on a busy machine all calls would end in the round after the next.
        for _ in range(100):
            await asyncio.sleep(0)
        busy -= 1
        return await good_answer(row)

    stores, seen = make_stores(), list[Progress]()
    await write_dataset(stores.dataset, 600)
    environment = replace(make_environment(), watch=seen.append)
    async with replica(half) as server:
        plan = compile_plan(make_spec(workersPerReplica=32))
        summary = await evaluate(plan, stores, FixedDiscovery({server.address}), epoch(1), environment)
    assert 16 <= summary.refused == summary.retries <= 0.05 * 600 + 16
    snapshot = seen[0].snapshot()
    assert (snapshot["refused"], snapshot["done"], snapshot["secondsLeft"]) == (summary.refused, 600, 0.0)
    assert snapshot["admitted"] <= 18
