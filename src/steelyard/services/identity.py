"""Checks that the log is the one from which the outlets were written; and what an administrator's acceptance changes.

Every process of the platform calls `enter` before its first service starts: a log of another installation, or one
emptier or shorter than what its outlets have read, would take entities out of the view and end work that runs. The view
alone is derived, so one that is lost, or not of this log, is built again where another outlet knows the log.
`steelyard log accept` calls `accept`. Nothing here needs more of a log than its id, its epoch and its end offsets.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from steelyard.accounts.outbox import Outbox
from steelyard.broker.log import EVENTS, STATE, Log
from steelyard.broker.partition import find_partition
from steelyard.engines.addresses import without_password
from steelyard.engines.origin import Origin, OriginUnreadable, Outlet
from steelyard_common.errors import Refused
from steelyard_evaluation.storage.store import ObjectMissing, Store

IDENTITY = ".steelyard/identity.json"
_log = logging.getLogger(__name__)


class LogRefused(Refused):
    """The log is not the one that an outlet was written from; the message names both."""


@dataclass(frozen=True)
class Outlets:
    """Outlets that are written from one log, each with its address for messages."""

    view: tuple[str, Outlet]
    backup: tuple[str, Outlet]
    storage: tuple[str, Outlet]
    accounts: tuple[str, Outlet]

    def all(self) -> Mapping[str, Outlet]:
        """All outlets, in the order in which they are written: a storage that has an origin says that all have one."""
        return dict((self.view, self.backup, self.accounts, self.storage))


@dataclass(frozen=True)
class Inspection:
    """The origin of each outlet, by its address, and what is wrong with some."""

    origins: Mapping[str, Origin | None]
    faults: Mapping[str, str]
    rebuilt: frozenset[str] = frozenset()
    """Outlets that are built again from the log without a person's decision."""


class StorageOutlet:
    """The object storage: it holds no position, but belongs to one installation."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def origin(self) -> Origin | None:
        try:
            content = orjson.loads(await self._store.get(IDENTITY))
            return Origin(str(content["log"]), int(content["epoch"]))
        except ObjectMissing:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise OriginUnreadable(f"{IDENTITY} cannot be read") from error

    async def set_origin(self, log: str, epoch: int) -> None:
        await self._store.put(IDENTITY, orjson.dumps({"log": log, "epoch": epoch}))


async def enter(log: Log, address: str, outlets: Outlets, advice: str) -> None:
    """Let the outlets be written from this log. Raises LogRefused, and then nothing has changed."""
    inspection, address = await inspect(log, outlets), without_password(address)
    if inspection.faults:
        faults = "; ".join(f"{name}: {fault}" for name, fault in inspection.faults.items())
        raise LogRefused(f"log {address} (id {log.id[:8]}, epoch {log.epoch}) is refused: {faults}. {advice}")
    for name in sorted(inspection.rebuilt):
        _log.warning("%s: is lost or belongs to another log; it is built again from log %s", name, address)
    for name, outlet in outlets.all().items():
        origin = inspection.origins[name]
        if origin is None or (origin.log, origin.epoch) != (log.id, log.epoch):
            await outlet.set_origin(log.id, log.epoch)


async def inspect(log: Log, outlets: Outlets) -> Inspection:
    """Compare the outlets' origins with the log; changes nothing."""
    ends = {topic: dict(await log.ends(topic)) for topic in (STATE, EVENTS)}
    origins: dict[str, Origin | None] = {}
    faults: dict[str, str] = {}
    for name, outlet in outlets.all().items():
        try:
            origins[name] = await outlet.origin()
        except OriginUnreadable as error:
            origins[name], faults[name] = None, str(error)
        if (fault := _fault(log, ends, origins[name])) is not None:
            faults[name] = fault
    view, backup, storage, accounts = (outlet[0] for outlet in vars(outlets).values())
    records = any(end for topic in ends.values() for end in topic.values())
    # A start was completed before if an outlet has positions; one that was only begun has none.
    used = any(
        origin and (not origin.positions or any(origin.positions.values())) for origin in origins.values()
    )
    if origins[accounts] is None and accounts not in faults and (records or used):
        faults[accounts] = "is empty, and the log is not: accounts, tokens and claims would start empty"
    known = origins[accounts]
    if origins[storage] is None and storage not in faults and records and known is not None and known.log:
        faults[storage] = f"lacks {IDENTITY}: it is empty, or another installation's"
    vouched = any(name not in faults and _same(log, origins[name]) for name in (backup, accounts, storage))
    rebuilt = {name for name in (view, backup) if records and origins[name] is None and name not in faults}
    if vouched and view in faults and not _same(log, origins[view]):
        del faults[view]
        rebuilt.add(view)
    return Inspection(origins, faults, frozenset(rebuilt))


def _same(log: Log, origin: Origin | None) -> bool:
    return origin is not None and origin.log == log.id


def _fault(log: Log, ends: Mapping[str, Mapping[int, int]], origin: Origin | None) -> str | None:
    """Return why an outlet of this origin cannot be written from the log; None where it can."""
    if origin is None:
        return None
    if origin.log and origin.log != log.id:
        return f"belongs to log {origin.log[:8]} (epoch {origin.epoch})"
    if origin.epoch > log.epoch:
        return f"has seen epoch {origin.epoch} of the log: an older copy of the log was put back"
    if origin.epoch < log.epoch:
        unnamed = not origin.log and origin.epoch > 0
        return f"belongs to a log of epoch {origin.epoch}" if unnamed else None
    for topic, positions in origin.positions.items():
        for partition, position in positions.items():
            if position > ends[topic].get(partition, 0):
                return (
                    f"has read {topic} up to offset {position} of partition {partition}, and the log ends at "
                    f"{ends[topic].get(partition, 0)}: it was cut short, or an older copy was put back"
                )
    return None


def next_epoch(log: Log, inspection: Inspection) -> int:
    """The highest epoch that any outlet has seen, plus one."""
    return 1 + max([log.epoch, *(origin.epoch for origin in inspection.origins.values() if origin)])


async def accept(log: Log, outlets: Outlets, outbox: Outbox) -> int:
    """Let the outlets follow this log, whatever they followed before; how many acknowledged creates are sent again.

    The log gets its new epoch first: after a crash in between, the outlets still refuse it, and this is called again.
    """
    await log.begin_epoch(next_epoch(log, await inspect(log, outlets)))
    lost = await _find_lost(log, outbox)
    await outbox.unsend(lost)
    for outlet in outlets.all().values():
        await outlet.set_origin(log.id, log.epoch)
    return len(lost)


async def _find_lost(log: Log, outbox: Outbox) -> dict[str, int]:
    """Creates that were acknowledged and whose entity the log does not know."""
    ends = await log.ends(EVENTS)
    return {
        row.command: ends[find_partition(row.topic_key, log.partitions)]
        for row in await outbox.list_sent()
        if await log.latest(STATE, row.entity) is None
    }
