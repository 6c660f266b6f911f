"""The leading orchestrator: its election, and what it believes of the log and the claims when it starts."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from steelyard.accounts.open import open_accounts_database
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import STATE, Message, Record
from steelyard.services.simulation.entities import make_model
from steelyard.services.simulation.platform import (
    PlatformHarness,
    Slots,
    has_status,
    open_harness,
    until,
    wait_for_admission,
    wait_for_release,
)

MODEL = make_model()


@pytest.fixture
async def harness() -> AsyncIterator[PlatformHarness]:
    async with open_harness(Slots()) as harness:
        yield harness


async def test_two_orchestrators_and_one_leader(harness: PlatformHarness) -> None:
    first, second = harness.start("one"), harness.start("two")
    models = [make_model(f"m{number}") for number in range(8)]
    await harness.create(*models[:4])
    for model in models[:4]:
        await has_status(harness, model.id, "Admitted")
    await harness.kill(first)
    await harness.create(*models[4:])
    for model in models:
        await has_status(harness, model.id, "Admitted")
    assert [harness.creations(model) for model in models] == [1] * 8
    assert not second.done()


async def test_a_leader_that_was_overtaken_stands_for_election_again(
    harness: PlatformHarness, caplog: pytest.LogCaptureFixture
) -> None:
    leader = harness.start()
    await wait_for_admission(harness, MODEL)
    overtaker = await harness.claims.lead("another", harness.now)
    other = make_model("m2")
    await harness.create(other)
    await until(lambda: harness.resource(other) is not None)
    assert "was replaced by leader" in caplog.text
    assert await harness.claims.lead("a third", harness.now) == overtaker + 2, "it was elected in between"
    assert not leader.done()


async def test_the_claims_have_the_last_word(harness: PlatformHarness) -> None:
    """Something is held that the leader has not heard of."""
    harness.limits = Slots(2)
    harness.start()
    # Once it admits, its start is over, in which a leader removes claims that the log does not know.
    await wait_for_admission(harness, MODEL)
    known = await harness.claim(MODEL.id)
    assert known
    leader = 1  # there was no other
    await harness.claims.apply([("x1", replace(known, id="x1"))], harness.log.epoch, {}, leader)
    other = make_model("m2")
    await harness.create(other)

    async def waits() -> bool:
        return "quota" in await harness.message(other.id)

    await until(waits)
    assert harness.resource(other) is None


async def test_claims_can_be_made_again_from_the_log(harness: PlatformHarness) -> None:
    harness.limits = Slots(1)
    first = harness.start()
    await wait_for_admission(harness, MODEL)
    await harness.kill(first)
    accounts_database = await open_accounts_database("memory:")
    harness.claims = accounts_database.claims
    second = harness.start()
    await harness.create(make_model("m2"))

    async def waits() -> bool:
        return "quota" in await harness.message("m2")

    await until(waits)
    assert harness.creations(MODEL) == 1
    await harness.kill(second)
    await accounts_database.close()


class SlowLog(MemoryLog):
    """A log that takes its time."""

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        await asyncio.sleep(0.003)
        return await super().read(topic, partition, start, limit)


async def test_nothing_is_done_before_what_there_was_is_read() -> None:
    """Resources seem unwanted as long as there are no claims."""
    first, second = await open_accounts_database("memory:"), await open_accounts_database("memory:")
    harness = PlatformHarness(first.claims, Slots(), log=SlowLog())
    harness.aggregate()
    leader = harness.start()
    await wait_for_admission(harness, MODEL)
    await harness.kill(leader)
    harness.claims = second.claims
    harness.start()
    await wait_for_admission(harness, make_model("m2"))
    assert (harness.creations(MODEL), harness.deletions(MODEL)) == (1, 0)
    await harness.close()
    await first.close()
    await second.close()


async def test_a_log_made_again_is_believed(harness: PlatformHarness) -> None:
    """The log was restored from a backup that lacks one of two entities; offsets begin again."""
    lost, kept = make_model("m1"), make_model("m2")
    leader = harness.start()
    await wait_for_admission(harness, lost)
    await wait_for_admission(harness, kept)
    await harness.kill(leader)
    harness.log = MemoryLog(epoch=2)
    harness.aggregate()
    await harness.create(kept.model_copy(update={"status": "Admitted"}))
    await has_status(harness, "m2", "Admitted")
    harness.start()
    await until(lambda: harness.resource(lost) is None)
    assert await harness.claim("m1") is None
    await wait_for_admission(harness, make_model("m3"))
    assert harness.creations(kept) == 1
    claim = await harness.claim("m2")
    assert claim
    assert claim.position[0] == 2


async def test_what_was_forgotten_long_ago_is_let_go_of(harness: PlatformHarness) -> None:
    """The leader was away while it was deleted, forgotten, buried, and its tombstone went."""
    leader = harness.start()
    await wait_for_admission(harness, MODEL)
    await harness.kill(leader)
    state = await harness.log.latest(STATE, "m1")
    assert state
    await harness.log.publish([Message(STATE, "m1", None, partition=state.partition)])
    assert await harness.log.expire(STATE, datetime.now(UTC) + timedelta(days=1)) == 1
    harness.start()
    await until(lambda: harness.resource(MODEL) is None)
    assert await harness.claim("m1") is None


async def test_a_forgotten_entity_leaves_nothing_behind(harness: PlatformHarness) -> None:
    harness.start()
    await wait_for_admission(harness, MODEL)
    await harness.update_status(MODEL, "Deleted")
    await until(lambda: harness.resource(MODEL) is None)
    await wait_for_release(harness, "m1")
    await harness.forget(MODEL)

    async def unknown() -> bool:
        return await harness.claim("m1") is None

    await until(unknown)
