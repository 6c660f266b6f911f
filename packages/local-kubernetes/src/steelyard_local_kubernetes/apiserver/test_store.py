"""The store: one commit per turn, nothing reported before it, everything taken back when it fails."""

import asyncio
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.database import JUMP, SqliteDatabase
from steelyard_local_kubernetes.apiserver.item import make_item
from steelyard_local_kubernetes.apiserver.ring import Change, VersionForgotten
from steelyard_local_kubernetes.apiserver.store import INDEXED_FROM, INDEXED_LABELS, Row, Store

KIND = "configmaps"


def obj(name: str, uid: str = "", owners: tuple[str, ...] = (), **data: str) -> Json:
    metadata: Json = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"}
    metadata["ownerReferences"] = [{"uid": owner} for owner in owners]
    return {"metadata": metadata, "data": data}


class Recorder:
    """A database that remembers its commits and fails when the test says so."""

    def __init__(self) -> None:
        self.commits: list[list[Row]] = []
        self.failing = False
        self.during: list[object] = []
        self.ask: Callable[[], object] = lambda: None

    def load(self) -> tuple[int, Iterable[Row]]:
        return 1, ()

    def commit(self, version: int, rows: Iterable[Row]) -> None:
        self.during.append(self.ask())
        if self.failing:
            raise OSError("the disk is full")
        self.commits.append(list(rows))

    def give_back(self) -> bool:
        return False

    def close(self) -> None:
        pass


async def test_a_turn_is_one_commit() -> None:
    database = Recorder()
    store = Store(database)
    for name in "abc":
        store.put(KIND, obj(name))
    store.put(KIND, obj("a", x="2"))
    store.remove(KIND, obj("b"))
    assert database.commits == []
    await store.wait_durable()
    rows = {(name, raw is None) for _, _, name, raw in database.commits[0]}
    assert rows == {("a", False), ("b", True), ("c", False)}
    store.put(KIND, obj("d"))
    await store.wait_durable()
    assert len(database.commits) == 2


async def test_nothing_is_reported_before_the_commit() -> None:
    database = Recorder()
    store = Store(database)
    ring = store.bucket(KIND).ring
    changes: list[Change] = []
    store.listeners.append(changes.extend)
    start = store.committed
    database.ask = lambda: (list(ring.read(0)[0]), list(changes), store.committed)
    store.put(KIND, obj("a"))
    waiting = asyncio.create_task(store.wait_durable())
    assert not waiting.done()
    await waiting
    assert database.during == [([], [], start)]
    assert [change.new.name for change in ring.read(0)[0]] == [change.new.name for change in changes] == ["a"]
    assert store.committed == store.version


async def test_a_failed_commit_takes_its_turn_back() -> None:
    database = Recorder()
    store = Store(database)
    kept = store.put(KIND, obj("kept", owners=("o",), v="1"))
    await store.wait_durable()
    database.failing = True
    store.put(KIND, obj("kept", v="2"))
    store.remove(KIND, obj("kept"))
    store.put(KIND, obj("kept", uid="another"))
    store.put(KIND, obj("new"))
    with pytest.raises(OSError, match="disk is full"):
        await store.wait_durable()
    assert store.get(KIND, ("ns", "kept")) == kept
    assert store.get(KIND, ("ns", "new")) is None
    assert store.owner("another") is None
    assert store.owner("uid-kept") == (KIND, ("ns", "kept"))
    assert store.dependents("o") == [(KIND, ("ns", "kept"))]
    assert len(store.bucket(KIND).ring.read(0)[0]) == 1
    database.failing = False
    again = store.put(KIND, obj("new"))
    await store.wait_durable()
    assert again.version > kept.version + 4, "a version that was taken back is not given out again"


async def test_a_write_after_the_end_is_refused(tmp_path: Path) -> None:
    store = Store(SqliteDatabase(tmp_path / "db"))
    store.close()
    store.put(KIND, obj("late"))
    with pytest.raises(OSError, match="could not be written"):
        await store.wait_durable()


async def test_objects_outlive_the_process(tmp_path: Path) -> None:
    store = Store(SqliteDatabase(tmp_path / "db"))
    store.put(KIND, obj("a", v="1"))
    gone = store.put(KIND, obj("gone"))
    await store.wait_durable()
    store.remove(KIND, gone.parse())
    last = store.version
    store.close()  # commits what is pending
    again = Store(SqliteDatabase(tmp_path / "db"))
    item = again.get(KIND, ("ns", "a"))
    assert item is not None
    assert orjson.loads(item.raw)["data"] == {"v": "1"}
    assert again.get(KIND, ("ns", "gone")) is None
    assert again.version >= last + JUMP
    again.close()
    third = Store(SqliteDatabase(tmp_path / "db"))
    assert third.version >= again.version + JUMP, "even a start that wrote nothing gives out no version twice"
    third.close()


async def test_a_bucket_is_listed_in_order() -> None:
    store = Store(None)
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        created = obj(name)
        created["metadata"]["namespace"] = namespace
        store.put(KIND, created)
    assert [item.key for item in store.bucket(KIND).items()] == [("a", "y"), ("a", "z"), ("b", "x")]
    assert [item.key for item in store.bucket(KIND).items("b")] == [("b", "x")]
    assert store.bucket(KIND).size == 3
    await store.wait_durable()


async def test_a_kind_made_again_remembers_nothing_from_before() -> None:
    store = Store(None)
    store.put(KIND, obj("a"))
    store.remove(KIND, obj("a"))
    await store.wait_durable()
    ring = store.bucket(KIND).ring
    store.end_watches(KIND)
    assert ring.closed
    assert store.bucket(KIND).ring.floor == store.version


async def test_an_earlier_moment_is_without_what_came_later() -> None:
    store = Store(None)
    kept, changed = store.put(KIND, obj("kept")), store.put(KIND, obj("changed"))
    gone = store.put(KIND, obj("gone"))
    await store.wait_durable()
    moment = store.version
    store.put(KIND, obj("changed", "uid-changed", v="2"))
    store.remove(KIND, obj("gone"))
    store.put(KIND, obj("new"))
    # Before the commit and after it.
    for _ in range(2):
        assert store.items_at(KIND, "ns", moment) == [changed, gone, kept]
        assert store.items_at(KIND, None, moment) == [changed, gone, kept]
        assert [item.name for item in store.items_at(KIND, "ns", store.version)] == ["changed", "kept", "new"]
        await store.wait_durable()
    store.bucket(KIND).ring.compact()
    with pytest.raises(VersionForgotten):
        store.items_at(KIND, "ns", moment)


async def test_items_with_a_label_are_those_that_a_search_of_all_finds() -> None:
    rng, store = Random(3), Store(None)
    for turn in range(400):
        made = obj(f"name-{rng.randrange(120):03d}")
        made["metadata"] |= {
            "namespace": rng.choice(["a", "a-b"]),
            "labels": {"owner": str(rng.randrange(9))},
        }
        if rng.random() < 0.2:
            del made["metadata"]["labels"]
        if rng.random() < 0.2 and store.get(KIND, (made["metadata"]["namespace"], made["metadata"]["name"])):
            store.remove(KIND, made)
        else:
            store.put(KIND, made)
        for namespace in ("a", None):
            chosen = store.bucket(KIND).find_by_label("owner", ["1", "2"], namespace)
            wanted = [
                item for item in store.bucket(KIND).items(namespace) if item.labels.get("owner") in ("1", "2")
            ]
            assert chosen == wanted or (chosen is None and turn < 200)


async def test_indexes_are_bounded() -> None:
    store = Store(None)
    for number in range(INDEXED_FROM):
        store.put(KIND, obj(f"name-{number}"))
    answers = [store.bucket(KIND).find_by_label(f"label-{number}", ["1"], None) for number in range(20)]
    assert answers == [[]] * INDEXED_LABELS + [None] * (20 - INDEXED_LABELS)


def test_an_item_takes_no_more_than_its_bytes() -> None:
    made = obj("one")
    made["data"] = {f"key-{number}": "x" * 50 for number in range(60)}
    made["metadata"]["resourceVersion"] = "1"
    tracemalloc.start()
    try:
        items = [make_item(made) for _ in range(100)]
        taken = tracemalloc.get_traced_memory()[0] / 100
    finally:
        tracemalloc.stop()
    assert taken < len(items[0].raw) + 500


async def test_states_of_one_object_share_what_has_not_changed() -> None:
    """The history for watches has many states of each of thousands of objects."""
    store = Store(None)

    def state(**labels: str) -> Json:
        made: Json = orjson.loads(orjson.dumps(obj("one", owners=("owner-of-one",))))
        made["metadata"]["labels"] = labels
        return made

    first, second = store.put(KIND, state(a="b")), store.put(KIND, state(a="b"))
    shared = ("namespace", "name", "uid", "labels", "owners")
    assert [name for name in shared if getattr(first, name) is getattr(second, name)] == list(shared)
    assert second.version == first.version + 1
    third = store.put(KIND, state(a="c"))
    assert (third.labels, third.owners) == ({"a": "c"}, second.owners)
    other = state(a="c")
    other["metadata"] |= {"uid": "another", "ownerReferences": []}
    last = store.remove(KIND, other)
    assert (last.uid, last.owners, last.labels is third.labels) == ("another", (), True)
    assert store.put(KIND, obj("two")).namespace is first.namespace


def test_a_start_has_no_object_in_memory_twice(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db")
    large: list[Row] = []
    for number in range(40):
        content = {**obj(f"n{number}", text="x" * 500_000)}
        content["metadata"]["resourceVersion"] = "1"
        large.append((KIND, "ns", f"n{number}", orjson.dumps(content)))
    database.commit(1, large)
    tracemalloc.start()
    store = Store(database)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(store.bucket(KIND).items()) == 40
    assert most < 30_000_000  # of 20 MB of objects
    database.close()
