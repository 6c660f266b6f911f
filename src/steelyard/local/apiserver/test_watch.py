"""A watch whose reader is busy misses nothing and is not late; a quiet one keeps nothing."""

import asyncio
import gc
import time
from contextlib import aclosing

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
