"""A watch whose reader is busy misses nothing and is not late; a quiet one keeps nothing."""

import asyncio
import gc
import time
from contextlib import aclosing

import orjson

from steelyard.local.apiserver.item import Item
from steelyard.local.apiserver.registry import Registry
from steelyard.local.apiserver.store import Store
from steelyard.local.apiserver.watch import Watch, WatchOptions
from steelyard.types import Json


def make(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}}


async def test_a_change_that_comes_while_the_reader_is_busy_is_reported_without_another() -> None:
    store, kind = Store(None), Registry().stored("configmaps")
    watch = Watch(store, kind, lambda _: True, lambda item: item.raw, WatchOptions("1"), time.monotonic)
    async with aclosing(watch.stream()) as events:
        store.put("configmaps", make("first"))
        await store.settled()
        assert b'"first"' in await anext(events)
        store.put("configmaps", make("second"))
        await store.settled()
        async with asyncio.timeout(60):
            assert b'"second"' in await anext(events)
    store.close()


async def test_a_watch_that_selects_nothing_gets_bookmarks_while_others_write() -> None:
    store, kind = Store(None), Registry().stored("configmaps")
    time_passed = 0.0
    options = WatchOptions("1", bookmarks=True, bookmark_seconds=50)
    watch = Watch(store, kind, lambda _: False, lambda item: item.raw, options, lambda: time_passed)
    async with aclosing(watch.stream()) as events:
        for _ in range(3):
            bookmark = asyncio.create_task(anext(events))
            for second in range(50):
                store.put("configmaps", make(f"of-others-{time_passed}"))
                await store.settled()
                await asyncio.sleep(0)
                assert not bookmark.done(), f"after {second} s"
                time_passed += 1
            store.put("configmaps", make(f"of-others-{time_passed}"))
            async with asyncio.timeout(60):
                event = orjson.loads(await bookmark)
            assert event["type"] == "BOOKMARK"
            assert int(event["object"]["metadata"]["resourceVersion"]) == store.committed
    store.close()


async def test_a_quiet_watch_keeps_nothing_of_what_it_has_sent() -> None:
    store, kind = Store(None), Registry().stored("configmaps")
    watch = Watch(store, kind, lambda _: True, lambda item: item.raw, WatchOptions(), time.monotonic)
    async with aclosing(watch.stream()) as events:
        store.put("configmaps", make("listed"))
        assert b'"listed"' in await anext(events)
        for change in (store.put, store.remove):
            change("configmaps", make("listed"))
            await store.settled()
            assert b'"listed"' in await anext(events)
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        store.bucket("configmaps").ring.compact()
        assert not [obj for obj in gc.get_objects() if isinstance(obj, Item) and obj.name == "listed"]
        store.close()  # ends the watch
        await asyncio.gather(waiting, return_exceptions=True)
