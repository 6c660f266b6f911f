"""The sinks on a log: what they show, after a restart, a new log, a kill in the middle, and a long absence."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count

import orjson
import pytest

from steelyard.broker.follow import follow
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import STATE, Message
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.retries import Retries
from steelyard.broker.simulation.replay import Crash
from steelyard.engines.origin import Origin, OriginUnreadable
from steelyard.services.reaper.reaper import reap
from steelyard.services.simulation.commands import aggregate, create, forget, labels, message, status
from steelyard.services.simulation.entities import make_dataset, make_evaluation, make_model
from steelyard.services.sinks.view import (
    BackupOutlet,
    ViewOutlet,
    read_change,
    run_backup_sink,
    run_view_sink,
)
from steelyard.testing.engines.log import everything
from steelyard.views.in_memory import MemoryView
from steelyard.views.view import Change, View
from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.store import ObjectMissing, Store, open_store
from steelyard_schema.base import DyffEntity
from steelyard_schema.commands import Command

EVALUATION, MODEL, DATASET = make_evaluation(), make_model(), make_dataset()
LATER = datetime.now(UTC) + timedelta(days=1000)
WEEKS = timedelta(days=15)
_numbers = count()
Sink = Callable[[asyncio.Event], Awaitable[None]]


async def log_of(*commands: Command, epoch: int = 1) -> MemoryLog:
    log = MemoryLog(epoch=epoch)
    await aggregate(log, *map(message, commands))
    return log


async def deleted(log: MemoryLog, entity: DyffEntity, *, buried: bool = False) -> None:
    """Deleted, forgotten, and where `buried` its marker gone too."""
    await aggregate(log, message(status(entity, "Deleted")), message(forget(entity), "reaper"))
    if buried:
        await aggregate(log, message(forget(entity), "reaper", after=WEEKS))


@asynccontextmanager
async def running(sink: Sink) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.ensure_future(sink(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(60):
            await task


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110  (stores tell nobody)
            await asyncio.sleep(0.001)


async def shown(view: View, *entities: DyffEntity) -> None:
    """The view shows these of the three, and no other."""

    async def are_these() -> bool:
        shown = {entity.id for entity in (EVALUATION, MODEL, DATASET) if await view.find(entity.id)}
        return shown == {entity.id for entity in entities}

    await until(are_these)


def view_sink(log: MemoryLog, view: View) -> Sink:
    return lambda stop: run_view_sink(log, view, stop=stop)


def backup_sink(log: MemoryLog, store: Store) -> Sink:
    return lambda stop: run_backup_sink(log, store, stop=stop)


# ---- the view's


async def test_the_view_follows_the_state() -> None:
    log, view = await log_of(create(EVALUATION)), MemoryView()
    async with running(view_sink(log, view)):
        await shown(view, EVALUATION)
        await aggregate(log, message(create(MODEL)), message(labels(EVALUATION, a="1")))
        await shown(view, EVALUATION, MODEL)
        await deleted(log, EVALUATION)
        await shown(view, MODEL)
    await aggregate(log, message(create(DATASET)))
    async with running(view_sink(log, view)):
        await shown(view, MODEL, DATASET)


async def test_a_position_is_that_of_the_command() -> None:
    """The position in an outcome tells whether the view shows it."""
    log, view = await log_of(create(EVALUATION), labels(EVALUATION, a="1")), MemoryView()
    (state,) = await everything(log, STATE)
    async with running(view_sink(log, view)):
        await shown(view, EVALUATION)
    stored = await view.get("Evaluation", EVALUATION.id)
    assert stored
    assert stored.json == state.value
    assert (stored.position.epoch, stored.position.offset) == (1, int(state.headers["offset"]))


async def test_what_a_new_log_does_not_know_is_swept_out() -> None:
    view = MemoryView()
    async with running(view_sink(await log_of(create(EVALUATION), create(MODEL)), view)):
        await shown(view, EVALUATION, MODEL)
    async with running(view_sink(await log_of(create(MODEL), create(DATASET), epoch=2), view)):
        await shown(view, MODEL, DATASET)


async def test_a_sink_that_was_killed_in_a_resync_ends_it_at_its_next_start() -> None:
    view = MemoryView()
    async with running(view_sink(await log_of(create(EVALUATION), create(MODEL)), view)):
        await shown(view, EVALUATION, MODEL)
    log = await log_of(create(MODEL), epoch=2)
    for partition in range(log.partitions):  # read, and killed before the sweep
        records = await log.read(STATE, partition, 0)
        end = (await log.ends(STATE))[partition]
        await ViewOutlet(view).apply(records, log.epoch, {partition: end} if records else {})
    assert await view.find(EVALUATION.id)
    async with running(view_sink(log, view)):
        await shown(view, MODEL)


async def test_a_partition_may_end_with_what_is_gone() -> None:
    """No record lies at the end that was seen, and the sink has come there all the same."""
    log, view = await log_of(create(EVALUATION), create(MODEL)), MemoryView()
    async with running(view_sink(log, view)):
        await shown(view, EVALUATION, MODEL)
    log = await log_of(create(MODEL), create(DATASET), epoch=2)
    await deleted(log, DATASET, buried=True)
    assert await log.expire(STATE, LATER) == 1
    async with running(view_sink(log, view)):
        await shown(view, MODEL)


async def test_a_view_that_missed_the_marker_learns_from_the_tombstone() -> None:
    log, view = await log_of(create(EVALUATION), create(MODEL)), MemoryView()
    async with running(view_sink(log, view)):
        await shown(view, EVALUATION, MODEL)
    await deleted(log, EVALUATION, buried=True)
    async with running(view_sink(log, view)):
        await shown(view, MODEL)


async def test_a_view_that_was_away_for_longer_than_tombstones_are_kept_reads_everything_again() -> None:
    log, view = await log_of(create(EVALUATION), create(MODEL)), MemoryView()
    async with running(view_sink(log, view)):
        await shown(view, EVALUATION, MODEL)
    await deleted(log, EVALUATION, buried=True)
    await reap(log, LATER)
    assert await log.latest(STATE, EVALUATION.id) is None
    async with running(view_sink(log, view)):
        await shown(view, MODEL)


async def test_a_view_that_was_not_away_reads_nothing_again() -> None:
    log, view = await log_of(create(EVALUATION)), Restarts()
    await deleted(log, EVALUATION, buried=True)
    async with running(view_sink(log, view)):
        await swept(view, log)
    await reap(log, LATER)
    async with running(view_sink(log, view)):
        await aggregate(log, message(create(MODEL)))
        await shown(view, MODEL)
    assert view.restarts == 0


class Restarts(MemoryView):
    """Counts them."""

    restarts = 0

    async def restart(self, epoch: int) -> None:
        self.restarts += 1
        await super().restart(epoch)


async def swept(view: View, log: MemoryLog) -> None:
    """The sink has come to the end."""
    ends = await log.ends(STATE)

    async def is_there() -> bool:
        return await view.positions(log.epoch) == ends

    await until(is_there)


async def test_a_tombstone_that_says_nothing_changes_nothing() -> None:
    log = MemoryLog()
    (record,) = await log.publish([Message(STATE, "e1", None)])
    assert read_change(record) is None


# ---- the backup's


def backup() -> Store:
    return open_store(f"memory://sinks-{next(_numbers)}")


async def kept(store: Store, *keys: str) -> None:
    async def are_these() -> bool:
        return [info.key async for info in store.list("entities/")] == sorted(
            f"entities/{key}.json" for key in keys
        )

    await until(are_these)


async def test_the_backup_has_the_newest_of_each() -> None:
    log, store = await log_of(create(EVALUATION), create(MODEL)), backup()
    async with running(backup_sink(log, store)):
        await kept(store, "evaluations/e1", "models/m1")
        await aggregate(log, message(labels(EVALUATION, a="1")))
        await deleted(log, MODEL)
        await kept(store, "evaluations/e1")
    entity = orjson.loads(await store.get("entities/evaluations/e1.json"))
    assert entity["labels"] == {"a": "1"}
    await aggregate(log, message(create(DATASET)))
    await deleted(log, EVALUATION, buried=True)
    async with running(backup_sink(log, store)):
        await kept(store, "datasets/d1")


async def test_the_backup_writes_only_the_newest_of_the_states_of_a_pause() -> None:
    log, store = await log_of(create(EVALUATION)), CountingStore()
    async with running(lambda stop: run_backup_sink(log, store, stop=stop, pause_seconds=3600)):
        await until_backed_up(log, store)
        for number in range(10):
            await aggregate(log, message(labels(EVALUATION, a=str(number))))
            await turns()
        assert store.puts == ["entities/evaluations/e1.json", "positions.json"]
    # A stop does not wait for the end of the pause, and nothing is left behind.
    assert store.puts == ["entities/evaluations/e1.json", "positions.json"] * 2
    entity = orjson.loads(await store.get("entities/evaluations/e1.json"))
    assert entity["labels"] == {"a": "9"}
    await until_backed_up(log, store)


class CountingStore(ObjectStore):
    """A store that answers at once: how many turns a write takes is not left to another thread."""

    def __init__(self) -> None:
        super().__init__(f"memory://sinks-{next(_numbers)}")
        self.puts: list[str] = []
        self._objects: dict[str, bytes] = {}

    async def put(self, key: str, data: bytes) -> None:
        self.puts.append(key)
        self._objects[key] = data

    async def get(self, key: str) -> bytes:
        if key not in self._objects:
            raise ObjectMissing(key)
        return self._objects[key]


async def until_backed_up(log: MemoryLog, store: CountingStore) -> None:
    """Wait until the sink has stored the end of the log, and has found nothing more."""
    ends = {partition: end for partition, end in (await log.ends(STATE)).items() if end}

    async def are_stored() -> bool:
        return await BackupOutlet(store).positions(log.epoch) == ends

    await until(are_stored)
    await turns()


async def turns() -> None:
    """Let other tasks have more turns than a sink in memory takes for anything."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_pause_of_the_backup_ends() -> None:
    log, store = await log_of(create(EVALUATION)), backup()
    async with running(lambda stop: run_backup_sink(log, store, stop=stop, pause_seconds=0.01)):
        await kept(store, "evaluations/e1")
        await aggregate(log, message(create(MODEL)))
        await kept(store, "evaluations/e1", "models/m1")


async def test_the_backup_goes_on_where_it_was() -> None:
    log, store = await log_of(create(EVALUATION)), backup()
    async with running(backup_sink(log, store)):
        await kept(store, "evaluations/e1")
    ends = {partition: end for partition, end in (await log.ends(STATE)).items() if end}
    assert await BackupOutlet(store).positions(1) == ends
    assert await BackupOutlet(store).positions(2) == {}


async def test_the_backup_keeps_what_a_log_does_not_name() -> None:
    """The log may be of an epoch that an administrator accepted, or one whose tombstones have gone."""
    store = backup()
    async with running(backup_sink(await log_of(create(EVALUATION), create(MODEL)), store)):
        await kept(store, "evaluations/e1", "models/m1")
    async with running(backup_sink(await log_of(create(DATASET), epoch=2), store)):
        await kept(store, "datasets/d1", "evaluations/e1", "models/m1")
    log = await log_of(create(MODEL), epoch=3)
    await deleted(log, MODEL, buried=True)
    await reap(log, LATER)
    await aggregate(log, message(create(DATASET)))
    async with running(backup_sink(log, store)):
        await kept(store, "datasets/d1", "evaluations/e1", "models/m1")


async def test_the_backup_says_of_which_log_it_is() -> None:
    log, store = await log_of(create(EVALUATION)), backup()
    assert await BackupOutlet(store).origin() is None
    await BackupOutlet(store).set_origin("one", 1)
    async with running(backup_sink(log, store)):
        await kept(store, "evaluations/e1")
    ends = {partition: end for partition, end in (await log.ends(STATE)).items() if end}
    assert await BackupOutlet(store).origin() == Origin("one", 1, {STATE: ends})
    await BackupOutlet(store).set_origin("one", 2)
    assert await BackupOutlet(store).origin() == Origin("one", 2, {STATE: {}})
    await store.put("positions.json", b"{")
    with pytest.raises(OriginUnreadable, match="cannot be read"):
        await BackupOutlet(store).origin()
    await store.delete("positions.json")
    with pytest.raises(OriginUnreadable, match="is not there, though entities are"):
        await BackupOutlet(store).origin()


# ---- both


Outlet = ViewOutlet | BackupOutlet
Contents = Callable[[], Awaitable[object]]


class Dying:
    """A process dies before or after its write of this number."""

    def __init__(self, moment: int, *, after: bool) -> None:
        self.left, self.after = moment, after

    @contextmanager
    def write(self) -> Iterator[None]:
        self.left -= 1
        if self.left == -1 and not self.after:
            raise Crash
        yield
        if self.left == -1 and self.after:
            raise Crash


class DyingStore(ObjectStore):
    death = Dying(-1, after=False)

    async def put(self, key: str, data: bytes) -> None:
        with self.death.write():
            await super().put(key, data)

    async def delete(self, key: str) -> None:
        with self.death.write():
            await super().delete(key)


class DyingView(MemoryView):
    death = Dying(-1, after=False)

    async def apply(self, changes: Sequence[Change], epoch: int, positions: Mapping[int, int]) -> None:
        with self.death.write():
            await super().apply(changes, epoch, positions)


def _store() -> tuple[DyingStore, Callable[[], Outlet], Contents]:
    store = DyingStore(f"memory://sinks-{next(_numbers)}")

    async def contents() -> object:
        return {item.key: await store.get(item.key) async for item in store.list("entities/")}

    return store, lambda: BackupOutlet(store), contents


def _view() -> tuple[DyingView, Callable[[], Outlet], Contents]:
    view = DyingView()

    async def contents() -> object:
        return [await view.find(entity.id) for entity in (EVALUATION, MODEL, DATASET)]

    return view, lambda: ViewOutlet(view), contents


async def read_to_the_end(log: MemoryLog, outlet: Outlet) -> None:
    stop = asyncio.Event()
    async with asyncio.timeout(60):
        await follow(log, STATE, outlet, consumer="sink", stop=stop, caught_up=stop.set, retries=Retries(()))


@pytest.mark.parametrize("make", [_store, _view])
@pytest.mark.parametrize("after", [False, True])
async def test_whenever_a_sink_dies_its_next_start_misses_nothing(
    make: Callable[[], tuple[DyingStore | DyingView, Callable[[], Outlet], Contents]], after: bool
) -> None:
    """Positions are never ahead of what they stand for."""
    log = await log_of(create(EVALUATION), create(MODEL), create(DATASET), labels(MODEL, a="1"))
    await deleted(log, DATASET)
    _, outlet, expected = make()
    await read_to_the_end(log, outlet())
    for moment in count():
        dying, outlet, contents = make()
        if isinstance(begun := outlet(), BackupOutlet):
            await begun.set_origin("log", log.epoch)  # the process does this before it starts any service
        dying.death = Dying(moment, after=after)
        with suppress(Crash):
            await read_to_the_end(log, outlet())
        died = dying.death.left < 0
        await read_to_the_end(log, outlet())
        assert await contents() == await expected()
        if not died:
            break
    assert moment >= 3


@pytest.mark.parametrize("make", [_store, _view])
async def test_an_entity_that_a_sink_cannot_take_stops_no_other(
    make: Callable[[], tuple[DyingStore | DyingView, Callable[[], Outlet], Contents]],
) -> None:
    log = await log_of(create(EVALUATION), create(MODEL))
    _, outlet, contents = make()
    await read_to_the_end(log, outlet())
    state = await log.latest(STATE, MODEL.id)
    assert state
    odd = [(state.value or b"").replace(b'"kind":"Model"', b'"kind":"Nothing"'), b"{", b"[]"]
    await log.publish([Message(STATE, f"x{n}", value, state.headers) for n, value in enumerate(odd)])
    await read_to_the_end(log, outlet())
    assert {entity.key for entity in await list_entries(log)} == {"x0", "x1", "x2"}
    before = await contents()
    await aggregate(log, message(labels(EVALUATION, a="1")))
    await read_to_the_end(log, outlet())
    assert await contents() != before
