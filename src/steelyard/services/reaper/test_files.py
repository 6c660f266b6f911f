"""Files of forgotten entities: when they go, what keeps them, and that a death anywhere only delays their end."""

import logging
from datetime import datetime, timedelta
from itertools import count

import pytest

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import STATE, Message
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.quarantine.marks import Aside
from steelyard.services.aggregator.messages import read_state
from steelyard.services.reaper import files as module
from steelyard.services.reaper.departures import departures
from steelyard.services.reaper.files import GRACE, ForgottenFiles, Marker, list_folders
from steelyard.services.reaper.reaper import COMMANDS_FOR, FILES, reap
from steelyard.services.simulation.commands import aggregate, create, forget, message, restore, status
from steelyard.services.simulation.entities import START, make_dataset, make_evaluation, make_model
from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.store import StorageError, Store, open_store
from steelyard_schema.base import DyffEntity
from steelyard_schema.entities import PLURALS
from steelyard_schema.names import place
from steelyard_schema.retention import FILES_FOR

names = count()
ID, OTHER = "d" * 32, "b" * 32
DUE = START + FILES_FOR + GRACE
SECOND = timedelta(seconds=1)


def make_store() -> Store:
    return open_store(f"memory://forgotten-{next(names)}")


async def forgotten(log: MemoryLog, *entities: DyffEntity) -> None:
    """Make entities, delete them and forget them, at the start."""
    for entity in entities:
        await aggregate(log, message(create(entity)), message(status(entity, "Deleted")))
        await aggregate(log, message(forget(entity), "reaper"))


async def make_pass(log: MemoryLog, store: Store, now: datetime, files: ForgottenFiles | None = None) -> int:
    """One pass of a reaper; of one that has just been started, unless its memory is given."""
    files = files or ForgottenFiles(log, store)
    await reap(log, now, files=files)
    return await files.remove(now, await Aside.open(log, FILES))


async def keys(store: Store) -> set[str]:
    return {info.key async for info in store.list("")}


async def put(store: Store, *keys: str) -> None:
    for key in keys:
        await store.put(key, b"x")


@pytest.mark.parametrize("kind", PLURALS)
async def test_the_files_of_every_kind_go_and_no_others(kind: str) -> None:
    """Folders of the entity alone: an id that begins alike is another's, and so is the same id of another kind."""
    log, store = MemoryLog(clock=lambda: START), make_store()
    own = {
        f"{place(kind, ID)}/{name}" for name in ("a", "deep/b", ".steelyard/manifest.json", ".dyff/logs.txt")
    }
    other = "Dataset" if kind != "Dataset" else "Model"
    others = {
        f"{place(kind, OTHER)}/a",
        f"{place(kind, ID)}0/a",
        f"{place(other, ID)}/a",
        f"x/{place(kind, ID)}/a",
    }
    await put(store, *own, *others)
    headers = {
        "epoch": str(log.epoch),
        "partition": "0",
        "offset": "0",
        "kind": kind,
        "forgotten": START.isoformat(),
    }
    await log.publish([Message(STATE, ID, b"{}", headers)])
    await make_pass(log, store, DUE - SECOND)
    assert await keys(store) == own | others
    await make_pass(log, store, DUE)
    assert await keys(store) == others


async def test_the_uploaded_files_of_a_model_go_with_it() -> None:
    log, store = MemoryLog(clock=lambda: START), make_store()
    await forgotten(log, make_model(ID))
    await put(store, f"models/{ID}/a", f"uploads/{ID}/a", f"uploads/{OTHER}/a")
    await make_pass(log, store, DUE)
    assert await keys(store) == {f"uploads/{OTHER}/a"}


@pytest.mark.parametrize("id", ["", "..", "a/b", "A" * 32, "a" * 31])
def test_an_id_that_is_no_entitys_has_no_folder(id: str) -> None:
    assert list_folders(Marker(id, "Dataset", START)) == []
    assert list_folders(Marker(ID, "", START)) == []


async def test_what_another_entity_names_stays_until_that_is_forgotten_too() -> None:
    """Evidence would else be gone: also of one that is Deleted, since that may be restored."""
    log, store = MemoryLog(clock=lambda: START), make_store()
    data, user = make_dataset(ID), make_evaluation(OTHER, dataset=ID)
    await forgotten(log, data)
    await aggregate(log, message(create(user)))
    await put(store, f"datasets/{ID}/a")
    for new in (None, "Deleted"):
        if new:
            await aggregate(log, message(status(user, new)))
        await make_pass(log, store, DUE)
        assert await keys(store) == {f"datasets/{ID}/a"}
        assert (ID, OTHER) in [(one.id, one.kept_by) for one in await departures(log)]
    await aggregate(log, message(forget(user), "reaper"))
    await make_pass(log, store, DUE)
    assert await keys(store) == set()


class Dying(ObjectStore):
    """A store at which the process dies after some removals."""

    left = 1000

    async def delete(self, key: str) -> None:
        if self.left <= 0:
            raise StorageError("killed")
        self.left -= 1
        await super().delete(key)


@pytest.mark.parametrize("removals", range(6))
async def test_a_death_between_any_two_removals_leaves_the_rest_to_the_next(removals: int) -> None:
    now = START
    log = MemoryLog(clock=lambda: now)
    store = Dying(f"memory://forgotten-{next(names)}")
    await forgotten(log, make_dataset(ID), make_model(OTHER))
    await put(
        store, *(f"datasets/{ID}/{number}" for number in range(3)), f"models/{OTHER}/a", f"uploads/{OTHER}/a"
    )
    now, store.left = DUE, removals
    if removals < 5:
        with pytest.raises(StorageError):
            await make_pass(log, store, DUE)
        assert len(await keys(store)) == 5 - removals
    store.left = 1000
    # The marker is not buried before its files are gone, however late the next pass is.
    late = START + 3 * COMMANDS_FOR
    await make_pass(log, store, late)
    await aggregate(log)
    assert await keys(store) == set()
    for id in (ID, OTHER):
        state = read_state(await log.latest(STATE, id))
        assert state is not None
        assert not state.buried


async def test_a_marker_stays_until_its_files_are_gone_and_goes_then() -> None:
    now = START
    log, store = MemoryLog(clock=lambda: now), make_store()
    await forgotten(log, make_dataset(ID))
    await put(store, f"datasets/{ID}/a")
    files = ForgottenFiles(log, store)
    now = START + COMMANDS_FOR
    assert await reap(log, now, files=files) == 0
    assert await files.remove(now, await Aside.open(log, FILES)) == 1
    assert await reap(log, now, files=files) == 1
    await aggregate(log)
    state = read_state(await log.latest(STATE, ID))
    assert state is not None
    assert state.buried


@pytest.mark.parametrize(("after", "restored"), [(FILES_FOR - SECOND, True), (FILES_FOR, False)])
async def test_a_restore_in_time_keeps_the_files_and_a_later_one_is_refused(
    after: timedelta, *, restored: bool
) -> None:
    log, store = MemoryLog(clock=lambda: START), make_store()
    data = make_dataset(ID, status="Ready")
    await forgotten(log, data)
    await put(store, f"datasets/{ID}/a")
    await aggregate(log, message(restore(data, ifRevisionUndefined=True), after=after))
    state = read_state(await log.latest(STATE, ID))
    assert state is not None
    assert (state.content is not None) == restored
    await make_pass(log, store, DUE)
    assert await keys(store) == ({f"datasets/{ID}/a"} if restored else set())


async def test_a_restore_that_came_since_the_pass_began_keeps_the_files() -> None:
    log, store = MemoryLog(clock=lambda: START), make_store()
    data = make_dataset(ID, status="Ready")
    await forgotten(log, data)
    await put(store, f"datasets/{ID}/a")
    files = ForgottenFiles(log, store)
    await reap(log, DUE, files=files)
    await aggregate(log, message(restore(data, ifRevisionUndefined=True)))
    assert await files.remove(DUE, await Aside.open(log, FILES)) == 0
    assert await keys(store) == {f"datasets/{ID}/a"}


async def test_nothing_goes_while_an_old_command_waits_to_be_applied() -> None:
    """Commands that wait may be restores that were accepted in time."""
    log, store = MemoryLog(clock=lambda: START), make_store()
    await forgotten(log, make_dataset(ID))
    await put(store, f"datasets/{ID}/a")
    await log.publish([message(create(make_dataset(OTHER)))])
    assert await make_pass(log, store, DUE) == 0
    await aggregate(log)
    assert await make_pass(log, store, DUE) == 1


async def test_those_that_stay_do_not_take_the_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTITIES", 1)
    log, store = MemoryLog(clock=lambda: START), make_store()
    kept = [make_dataset(f"{number:032x}") for number in range(1, 4)]
    await forgotten(log, *kept, make_dataset(ID))
    for number, data in enumerate(kept, 10):
        await aggregate(log, message(create(make_evaluation(f"{number:032x}", dataset=data.id))))
    await put(store, f"datasets/{ID}/a")
    files = ForgottenFiles(log, store)
    for _ in range(5):
        await make_pass(log, store, DUE, files)
    assert await keys(store) == set()


async def test_a_pass_is_bounded_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OBJECTS", 2)
    log, store = MemoryLog(clock=lambda: START), make_store()
    await forgotten(log, make_dataset(ID))
    await put(store, *(f"datasets/{ID}/{number}" for number in range(5)))
    assert [await make_pass(log, store, DUE) for _ in range(4)] == [2, 2, 1, 0]


async def test_one_whose_files_cannot_be_removed_is_put_aside_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class BrokenStore(ObjectStore):
        async def delete(self, key: str) -> None:
            if ID in key:
                raise ValueError("a defect")
            await super().delete(key)

    caplog.set_level(logging.INFO)
    log, store = MemoryLog(clock=lambda: START), BrokenStore(f"memory://forgotten-{next(names)}")
    await forgotten(log, make_dataset(ID), make_dataset(OTHER))
    await put(store, f"datasets/{ID}/a", f"datasets/{OTHER}/a")
    files = ForgottenFiles(log, store)
    await make_pass(log, store, DUE, files)
    assert await keys(store) == {f"datasets/{ID}/a"}
    assert [(entity.key, entity.consumer) for entity in await list_entries(log)] == [(ID, FILES)]
    assert f"Dataset {OTHER} was forgotten" in caplog.text
    (metric,) = files.metrics.objects.collect()
    assert metric.samples[0].value == 1.0


async def test_what_goes_is_said_with_its_times() -> None:
    log = MemoryLog(clock=lambda: START)
    await forgotten(log, make_dataset(ID))
    await aggregate(log, message(create(make_model(OTHER))), message(status(make_model(OTHER), "Deleted")))
    await aggregate(log, message(create(make_dataset("e" * 32))))
    week = timedelta(days=7)
    said = [(one.status, one.id, one.forgotten, one.files_until) for one in await departures(log)]
    assert said == [
        ("Forgotten", ID, START, START + week),
        ("Deleted", OTHER, START + week, START + 2 * week),
    ]
