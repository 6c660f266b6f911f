"""A restore of a log from its backup that is cut short, and called again."""

from collections.abc import Sequence

import pytest

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import STATE, Message, Record
from steelyard.engines.origin import Origin
from steelyard.services.simulation.commands import aggregate, create, message
from steelyard.services.simulation.entities import START, make_dataset, make_model
from steelyard.services.sinks.restore import RestoreResult, restore
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.base import DyffEntity

EPOCH = 2


class Killed(BaseException):
    """End of the process."""


class Cut(MemoryLog):
    """A log whose writer is killed after the first message of the next call."""

    is_cut = False

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        if not self.is_cut:
            return await super().publish(messages)
        self.is_cut = False
        await super().publish(messages[:1])
        raise Killed


async def keep(backup: Store, entity: DyffEntity, plural: str) -> bytes:
    content = entity.dump_json().encode()
    await backup.put(f"entities/{plural}/{entity.id}.json", content)
    return content


async def test_a_restore_that_was_cut_short_leaves_out_nothing_when_it_is_called_again() -> None:
    """The log is an older copy; the backup has read one record more than it holds; and it has lost another entity."""
    log, backup = Cut(1), open_store("memory://restore-cut-short")
    await aggregate(log, message(create(make_model("m1"))))
    lost = await keep(backup, make_dataset("d1"), "datasets")
    edited = await keep(backup, make_model("m1", name="edited since"), "models")
    end = (await log.ends(STATE))[0]
    origin = Origin(log.id, 1, {STATE: {0: end + 1}})
    log.is_cut = True
    with pytest.raises(Killed):
        await restore(log, backup, origin, EPOCH, START)
    assert await restore(log, backup, origin, EPOCH, START) == RestoreResult(1, ())
    latest = [await log.latest(STATE, id) for id in ("d1", "m1")]
    assert [record.value for record in latest if record] == [lost, edited]
