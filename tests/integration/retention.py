"""An entity that is deleted, and then everything that forgets it, day by day: log, view, backup and mirror."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from steelyard.broker.follow import follow
from steelyard.broker.log import DEAD, EVENTS, OUTCOMES, STATE, WAITING, Log, Message
from steelyard.broker.scan import topic_pieces
from steelyard.local.engines import Engines, open_engines, outlets
from steelyard.local.restoring import fill_view
from steelyard.services.backup.archive import Archive
from steelyard.services.backup.entity import Backup
from steelyard.services.backup.mirror import mirror
from steelyard.services.backup.snapshots import keep_snapshots
from steelyard.services.identity import enter
from steelyard.services.reaper.reaper import reap
from steelyard.services.simulation.commands import aggregate, create, labels, message, status
from steelyard.services.simulation.entities import make_dataset
from steelyard.services.sinks.view import BackupOutlet
from steelyard.settings import Settings
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.commands import command_time
from tests.integration.test_backups import back_up

DAYS = 26
SECRET = "the name of what is deleted"
GONE, STAYS = make_dataset("gone", name=SECRET), make_dataset("stays")


@dataclass
class Day:
    """Places that hold the deleted entity at the end of a day, and whether it could be restored then."""

    places: set[str]
    restorable: bool


async def live_through(settings: Settings, mirrored: str, *, busy: bool) -> list[Day]:
    """Delete an entity, and let days pass, each with one pass of all services that remove something.

    With `busy`, another entity changes every day. The other one must stay everywhere.
    """
    days: list[Day] = []
    async with open_engines(settings) as opened:
        await enter(opened.log, settings.log, outlets(opened, settings), "")
        begun, target = datetime.now(UTC), open_store(mirrored)
        await aggregate(opened.log, message(create(GONE)), message(create(STAYS)))
        await _pass_day(settings, opened, target, begun)
        await aggregate(opened.log, _at(begun, message(status(GONE, "Deleted"))))
        for number in range(DAYS):
            now = begun + timedelta(days=number)
            if busy:
                await aggregate(opened.log, _at(now, message(labels(STAYS, day=str(number)))))
            await _pass_day(settings, opened, target, now)
            places = {place async for place in _places(opened, target)}
            latest = await opened.log.latest(STATE, GONE.id)
            restorable = latest is not None and await Backup(opened.backup).last_content(GONE.id, latest)
            days.append(Day(places, bool(restorable)))
        assert await opened.view.find(STAYS.id) is not None
        names = [info.key async for info in opened.backup.list("entities/")]
        assert names == [f"entities/datasets/{STAYS.id}.json"]
        latest = await opened.log.latest(STATE, STAYS.id)
        assert latest is not None
        assert latest.value == await opened.backup.get(names[0])
    return days


def check_days(days: list[Day]) -> None:
    """Check when each place has dropped the entity: forgotten after 7 days, gone from the backup 7 days after that."""
    everywhere = {EVENTS, STATE, "view", "backup entities/", "backup archive/", "mirror"}
    for number, day in enumerate(days):
        if number < 7:
            assert day.places == everywhere, number
        else:
            assert not day.places & {STATE, "view", "backup entities/"}, number
        if number >= 15:
            assert EVENTS not in day.places, number
        # A snapshot of a day ago may be the one that is old enough.
        if number < 14:
            assert day.restorable, number
        elif number > 16:
            assert not day.restorable, number
            assert "backup archive/" not in day.places, number
        if number >= 25:
            assert day.places == set(), number


def _at(now: datetime, sent: Message) -> Message:
    return replace(sent, headers={**sent.headers, "time": command_time(now)})


async def _pass_day(settings: Settings, opened: Engines, target: Store, now: datetime) -> None:
    log, archive = opened.log, Archive(opened.backup)
    await reap(log, now, archived=await archive.positions(log.epoch))
    await aggregate(log)
    await fill_view(log, opened.view)
    await _back_up_entities(log, opened.backup)
    await back_up(log, opened.backup, lambda: now)
    await keep_snapshots(archive, log, settings.archive, now)
    await mirror(opened.store, opened.backup, target, now)


async def _back_up_entities(log: Log, backup: Store) -> None:
    stop = asyncio.Event()
    await follow(log, STATE, BackupOutlet(backup), consumer="backup-sink", stop=stop, caught_up=stop.set)


async def _places(opened: Engines, target: Store) -> AsyncIterator[str]:
    for topic in (EVENTS, STATE, OUTCOMES, DEAD, WAITING):
        async for records in topic_pieces(opened.log, topic):
            if any(_is_in(record.value or b"") for record in records):
                yield topic
    stored = await opened.view.find(GONE.id)
    if stored is not None and _is_in(stored.json):
        yield "view"
    for name, store in (("backup ", opened.backup), ("mirror", target)):
        async for info in store.list():
            content = await store.get(info.key)
            if _is_in(gzip.decompress(content) if info.key.endswith(".gz") else content):
                yield name if store is target else f"{name}{info.key.partition('/')[0]}/"


def _is_in(content: bytes) -> bool:
    return SECRET.encode() in content
