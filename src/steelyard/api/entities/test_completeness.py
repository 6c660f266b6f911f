"""A view that is built again lacks entities for a while: they are not there yet, which is not the same as missing."""

from pathlib import Path

import pytest

from steelyard.api.entities.completeness import Completeness
from steelyard.api.http.errors import Unavailable
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, STATE, Message
from steelyard.broker.open import open_log
from steelyard.views.in_memory import MemoryView


async def test_a_view_is_complete_from_the_log_of_the_start_on() -> None:
    log, view = MemoryLog(), MemoryView()
    await log.publish([Message(STATE, f"e{number}", b"{}") for number in range(20)])
    completeness = Completeness(log, view)
    await completeness.begin()
    with pytest.raises(Unavailable, match="being rebuilt"):
        await completeness.check()
    ends = await log.ends(STATE)
    await view.apply([], log.epoch, {partition: end - 1 for partition, end in ends.items()})
    with pytest.raises(Unavailable):
        await completeness.check()
    await log.publish([Message(STATE, "later", b"{}")])
    await view.apply([], log.epoch, ends)
    await completeness.check()


async def test_a_view_of_another_epoch_is_not_complete() -> None:
    log, view = MemoryLog(), MemoryView()
    await log.publish([Message(STATE, "e", b"{}")])
    await view.apply([], log.epoch + 1, await log.ends(STATE))
    completeness = Completeness(log, view)
    await completeness.begin()
    await completeness.wait(seconds=0.01)
    with pytest.raises(Unavailable):
        await completeness.check()


async def test_offsets_of_other_topics_are_nothing_to_wait_for(tmp_path: Path) -> None:
    """One counter of the embedded log gives all offsets: its end lies beyond the last state."""
    log, view = await open_log(f"sqlite:{tmp_path}/log.db"), MemoryView()
    try:
        await log.publish([Message(STATE, "e", b"{}"), Message(EVENTS, "e", b"{}")])
        completeness = Completeness(log, view)
        await completeness.begin()
        with pytest.raises(Unavailable):
            await completeness.check()
        (state,) = [
            record for partition in range(log.partitions) for record in await log.read(STATE, partition, 0)
        ]
        await view.apply([], log.epoch, {state.partition: state.offset + 1})
        await completeness.check()
    finally:
        await log.close()


async def test_a_first_start_waits_for_nothing() -> None:
    log, view = MemoryLog(), MemoryView()
    completeness = Completeness(log, view)
    await completeness.begin()
    await log.publish([Message(STATE, "first", b"{}")])
    await completeness.check()
