"""Tests of the list of quarantines."""

from collections.abc import Mapping

import orjson

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import QUARANTINE
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.quarantine.marks import mark


class RewritingLog(MemoryLog):
    """A log whose marks are written again as soon as its ends have been read."""

    async def ends(self, topic: str) -> Mapping[int, int]:
        ends = await super().ends(topic)
        if topic == QUARANTINE:
            await self.publish([mark("view-sink", "one", orjson.dumps({"reason": "x", "waiting": 2}))])
        return ends


async def test_an_entity_whose_mark_is_written_again_meanwhile_is_listed() -> None:
    log = RewritingLog()
    await log.publish([mark("view-sink", "one", orjson.dumps({"reason": "x", "waiting": 1}))])
    (entity,) = await list_entries(log)
    assert (entity.key, entity.waiting) == ("one", 2)


async def test_an_entity_that_is_out_of_quarantine_is_not_listed() -> None:
    log = MemoryLog()
    await log.publish([mark("view-sink", "one", orjson.dumps({"reason": "x"}))])
    await log.publish([mark("view-sink", "one", None)])
    assert await list_entries(log) == []
