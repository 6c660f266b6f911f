"""The pool: who gets the next call, and what a failing replica is trusted with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from yarl import URL

from steelyard_evaluation.engine.call import Failure, Fault
from steelyard_evaluation.engine.clients import open_client
from steelyard_evaluation.engine.limit import Concurrency
from steelyard_evaluation.engine.pool import PATIENCE, Pool, Replica, Stopped
from steelyard_evaluation.engine.retry import RetryPolicy

LOST = Failure(Fault.TRANSIENT, "lost")
GONE = Failure(Fault.UNREACHABLE, "refused")


@asynccontextmanager
async def pool(
    *addresses: str,
    per_replica: int = 2,
    adaptive: bool = False,
    limit: int = 120,
    jitter: float = 0.01,
    wait: float = 600.0,
) -> AsyncIterator[Pool]:
    pool = Pool(
        Concurrency(per_replica, adaptive),
        RetryPolicy(limit, 30, wait),
        lambda: jitter,
        lambda address: open_client(URL(address), 1.0),
    )
    for address in addresses:
        pool.add(address)
    try:
        yield pool
    finally:
        await pool.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def fail(pool: Pool, replica: Replica, failure: Failure) -> None:
    pool.release(replica, failure, now())
    await asyncio.sleep(0.001)  # the next call is sent later than this one failed


async def test_the_replica_with_the_fewest_calls_in_flight_is_next() -> None:
    async with pool("http://a", "http://b", "http://c") as replicas:
        taken = [await replicas.acquire() for _ in range(6)]
        assert sorted(replica.address for replica in taken) == sorted(
            ["http://a", "http://b", "http://c"] * 2
        )
        replicas.release(taken[1], b"", now())
        assert (await replicas.acquire()) is taken[1]
        for replica in taken:
            replicas.release(replica, b"", now())


async def test_no_replica_gets_more_calls_than_it_may_have() -> None:
    async with pool("http://a") as replicas:
        first = await replicas.acquire()
        await replicas.acquire()
        third = asyncio.create_task(replicas.acquire())
        await asyncio.sleep(0)
        assert not third.done()
        replicas.release(first, b"", now())
        assert (await third).in_flight == 2
        replicas.release(first, b"", now())
        replicas.release(first, b"", now())


async def test_a_cancelled_waiter_leaves_its_place_to_another() -> None:
    async with pool("http://a", per_replica=1) as replicas:
        only = await replicas.acquire()
        waiter = asyncio.create_task(replicas.acquire())
        await asyncio.sleep(0)
        replicas.release(only, b"", now())
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert (await asyncio.wait_for(replicas.acquire(), 30)) is only
        replicas.release(only, b"", now())


async def test_an_unreachable_replica_rests_at_once_and_others_take_its_calls() -> None:
    async with pool("http://a", "http://b", jitter=0.9) as replicas:
        first = await replicas.acquire()
        await fail(replicas, first, GONE)
        assert {(await replicas.acquire()).address for _ in range(2)} == {"http://b"}
        third = asyncio.create_task(replicas.acquire())
        await asyncio.sleep(0)
        assert not third.done()
        third.cancel()


async def test_single_failures_are_chance_and_several_in_a_row_are_not() -> None:
    async with pool("http://a") as replicas:
        for _ in range(PATIENCE - 1):
            await fail(replicas, only := await replicas.acquire(), LOST)
        assert only.resting_until == 0
        await fail(replicas, await replicas.acquire(), LOST)
        assert only.resting_until > 0


async def test_a_success_clears_the_record() -> None:
    async with pool("http://a", jitter=0.0) as replicas:
        for _ in range(PATIENCE):
            await fail(replicas, only := await replicas.acquire(), LOST)
        replicas.release(await replicas.acquire(), b"", now())
        assert (only.failures, only.rests, only.resting_until) == (0, 0, 0.0)


async def test_after_a_rest_one_call_is_sent_not_many() -> None:
    async with pool("http://a", jitter=0.0) as replicas:
        await fail(replicas, await replicas.acquire(), GONE)
        probe = await replicas.acquire()
        second = asyncio.create_task(replicas.acquire())
        await asyncio.sleep(0)
        assert not second.done()
        replicas.release(probe, b"", now())
        assert (await second) is probe
        replicas.release(probe, b"", now())


async def test_calls_in_flight_together_fail_as_one() -> None:
    async with pool("http://a", per_replica=64) as replicas:
        sent = now()
        taken = [await replicas.acquire() for _ in range(64)]
        await asyncio.sleep(0.001)
        for replica in taken:
            replicas.release(replica, GONE, sent)
        assert (taken[0].failures, taken[0].refused) == (1, 1)


async def test_a_replica_that_fails_beyond_the_limit_gets_no_more_calls() -> None:
    async with pool("http://a", limit=2, jitter=0.0) as replicas:
        for _ in range(PATIENCE + 2):
            assert not replicas.exhausted
            await fail(replicas, await replicas.acquire(), LOST)
        assert replicas.exhausted
        waiter = asyncio.create_task(replicas.acquire())
        await asyncio.sleep(0)
        assert not waiter.done()
        replicas.add("http://b")
        assert (await waiter).address == "http://b"
        assert not replicas.exhausted


async def test_refused_connections_count_by_their_time_not_by_their_number() -> None:
    async with pool("http://a", limit=1, jitter=0.0, wait=3600.0) as replicas:
        for _ in range(5):
            await fail(replicas, await replicas.acquire(), GONE)
        assert not replicas.exhausted
    async with pool("http://a", limit=1, jitter=0.0, wait=0.05) as replicas:
        began = now()
        while not replicas.exhausted:
            await fail(replicas, await replicas.acquire(), GONE)
        assert now() - began >= 0.05
        replicas.release(await replicas.acquire(), b"", now())  # it is still asked whether it is back
        assert (replicas.unreachable, replicas.exhausted) == (False, False)


async def test_a_foreign_replica_is_dropped() -> None:
    async with pool("http://a", "http://b") as replicas:
        first = await replicas.acquire()
        replicas.release(first, Failure(Fault.FOREIGN, "another's"), now())
        assert replicas.addresses == {"http://a", "http://b"} - {first.address}
        await asyncio.sleep(0)
        assert first.client.closed


async def test_a_dropped_replica_may_end_its_calls() -> None:
    async with pool("http://a") as replicas:
        only = await replicas.acquire()
        replicas.drop("http://a")
        await asyncio.sleep(0)
        assert not only.client.closed
        replicas.release(only, b"", now())
        await asyncio.sleep(0)
        assert only.client.closed


async def test_a_pool_that_is_stopped_hands_out_nothing_more() -> None:
    async with pool("http://a", per_replica=1) as replicas:
        only = await replicas.acquire()
        waiting = asyncio.create_task(replicas.acquire())
        await asyncio.sleep(0)
        replicas.stop()
        replicas.release(only, b"", now())
        with pytest.raises(Stopped):
            await waiting
        with pytest.raises(Stopped):
            await replicas.acquire()
        assert only.in_flight == 0


async def test_a_refusal_takes_a_place_away_and_answers_bring_it_back() -> None:
    async with pool("http://a", per_replica=10, adaptive=True) as replicas:
        taken = [await replicas.acquire() for _ in range(10)]
        await fail(replicas, taken[0], Failure(Fault.TRANSIENT, "", 429))
        assert (replicas.capacity, replicas.call_limit) == (10, 8)
        for replica in taken[1:]:
            replicas.release(replica, b"", now())
        for _ in range(200):
            for replica in [await replicas.acquire() for _ in range(replicas.call_limit)]:
                replicas.release(replica, b"", now())
            if replicas.call_limit == 10:
                break
            await asyncio.sleep(0.001)
        assert replicas.call_limit == 10


async def test_no_more_calls_than_there_is_room_for() -> None:
    policy = RetryPolicy(120, 30, 600.0)
    pool = Pool(Concurrency(100), policy, lambda: 0.01, lambda url: open_client(URL(url), 1.0), room=150)
    pool.add("http://127.0.0.1:1")
    assert pool.capacity == 100
    pool.add("http://127.0.0.1:2")
    assert pool.capacity == 150
    await pool.close()


async def test_a_resting_replica_sets_one_alarm_however_many_calls_end_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with pool("http://a", "http://b", per_replica=1, jitter=60.0) as replicas:
        first, second = [await replicas.acquire() for _ in range(2)]
        replicas.release(first, GONE, now())
        loop = asyncio.get_running_loop()
        alarms: list[float] = []
        call_at = loop.call_at

        def counted(when: float, *arguments: Any, **context: Any) -> asyncio.TimerHandle:
            alarms.append(when)
            return call_at(when, *arguments, **context)

        monkeypatch.setattr(loop, "call_at", counted)
        waiting = [asyncio.create_task(replicas.acquire()) for _ in range(50)]
        for task in waiting:
            await asyncio.sleep(0)
            replicas.release(second, b"", now())
            second = await task
        assert len(alarms) <= 1
        monkeypatch.undo()
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + 120)  # not by itself, before the last of them
        # The replica that rests still gets its call when its rest is over.
        assert (await replicas.acquire()) is first
