"""A watch whose reader is busy misses nothing and is not late; a quiet one keeps nothing."""

import asyncio
import gc
import time
from contextlib import aclosing

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.store import Store
from steelyard_local_kubernetes.apiserver.watch import PIECE, Watch, WatchOptions


def make(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}}


async def test_a_change_that_comes_while_the_reader_is_busy_is_reported_without_another() -> None:
    store, kind = Store(None), Registry().storage_kind("configmaps")
    watch = Watch(store, kind, lambda _: True, lambda item: item.raw, WatchOptions("1"), time.monotonic)
    async with aclosing(watch.stream()) as events:
        store.put("configmaps", make("first"))
        await store.wait_durable()
        assert b'"first"' in await anext(events)
        store.put("configmaps", make("second"))
        await store.wait_durable()
        async with asyncio.timeout(60):
            assert b'"second"' in await anext(events)
    store.close()


async def test_a_watch_that_selects_nothing_gets_bookmarks_while_others_write() -> None:
    store, kind = Store(None), Registry().storage_kind("configmaps")
    time_passed = 0.0
    # Longer than the test waits: a bookmark that comes by the wait alone is late.
    options = WatchOptions("1", seconds=1e6, bookmarks=True, bookmark_seconds=5000)
    watch = Watch(store, kind, lambda _: False, lambda item: item.raw, options, lambda: time_passed)
    async with aclosing(watch.stream()) as events:
        for _ in range(3):
            bookmark = asyncio.create_task(anext(events))
            for second in range(50):
                store.put("configmaps", make(f"of-others-{time_passed}"))
                await store.wait_durable()
                await asyncio.sleep(0)
                assert not bookmark.done(), f"after {100 * second} s"
                time_passed += 100
            store.put("configmaps", make(f"of-others-{time_passed}"))
            async with asyncio.timeout(60):
                event = orjson.loads(await bookmark)
            assert event["type"] == "BOOKMARK"
            assert int(event["object"]["metadata"]["resourceVersion"]) == store.committed
    store.close()


async def test_a_quiet_watch_keeps_nothing_of_what_it_has_sent() -> None:
    store, kind = Store(None), Registry().storage_kind("configmaps")
    watch = Watch(store, kind, lambda _: True, lambda item: item.raw, WatchOptions(), time.monotonic)
    async with aclosing(watch.stream()) as events:
        store.put("configmaps", make("listed"))
        assert b'"listed"' in await anext(events)
        for change in (store.put, store.remove):
            change("configmaps", make("listed"))
            await store.wait_durable()
            assert b'"listed"' in await anext(events)
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        store.bucket("configmaps").ring.compact()
        assert not [obj for obj in gc.get_objects() if isinstance(obj, Item) and obj.name == "listed"]
        store.close()  # ends the watch
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize("changed", [False, True], ids=["what is there", "what has changed"])
async def test_events_are_made_as_they_are_taken(changed: bool) -> None:
    store, kind = Store(None), Registry().storage_kind("configmaps")
    made = 0

    def render(item: Item) -> bytes:
        nonlocal made
        made += 1
        return item.raw

    watch = Watch(
        store, kind, lambda _: True, render, WatchOptions("1" if changed else "", seconds=0), time.monotonic
    )
    objects = [make(str(number)) | {"data": {"a": "x" * PIECE}} for number in range(20)]
    for obj in objects:
        store.put("configmaps", obj)
    await store.wait_durable()
    async with aclosing(watch.stream()) as events:
        for number in range(20):
            assert len(await anext(events)) < 2 * PIECE
            assert made == number + 1
    store.close()
