"""Watches that skip, double, break and forget, and an informer that follows them, for tests."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any, cast

from steelyard_common.types import Json
from steelyard_kube.cluster import ObjectList, Resource, WatchEvent
from steelyard_kube.errors import Gone, Unreachable
from steelyard_kube.informer import Informer, Pace
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import CONFIG_MAPS
from steelyard_kube.simulation.contract import config_map

EAGER = Pace(backoff=0)
AT_ONCE = Pace(backoff=0, watch=0)
"""Watches that end in time, and again and again."""
Seen = list[tuple[str | None, str | None]]
"""Changes that were reported: the number of an object before and after."""
EMPTY = MemoryCluster().snapshot()


class SavedCluster(MemoryCluster):
    """A cluster with a backup, which is empty at first."""

    saved = EMPTY


class LossyCluster(SavedCluster):
    """A cluster whose watches suffer the next faults of a plan, one for each event, until the plan is used up.

    A skipped event is followed by Gone sooner or later: no server leaves a gap without saying so.
    """

    def __init__(self, plan: list[str]) -> None:
        super().__init__()
        self.plan = plan
        self.owes_gone = False

    async def list(self, *args: Any, **kwargs: Any) -> ObjectList:
        if self._fault() == "away":
            raise Unreachable("the server is away")
        self.owes_gone = False
        return await super().list(*args, **kwargs)

    async def watch(self, resource: Resource, *args: Any, **kwargs: Any) -> AsyncIterator[WatchEvent]:
        past: list[WatchEvent] = []
        async for event in super().watch(resource, *args, **kwargs):
            fault = self._fault()
            if fault == "gone" or (self.owes_gone and not self.plan):
                self.owes_gone = False
                raise Gone("compacted")
            if fault == "cut":
                raise Unreachable("connection reset")
            if fault == "end":
                return
            if fault == "skip":
                self.owes_gone = True
                continue
            past.append(event)
            yield event
            if fault == "double":
                yield event
            if fault == "replay":
                yield past[0]

    def _fault(self) -> str:
        return self.plan.pop(0) if self.plan else ""


def names(objects: list[Json]) -> dict[str, str]:
    """Return the numbers of objects by their names."""
    return {obj["metadata"]["name"]: obj["data"]["n"] for obj in objects}


def apply(cluster: "SavedCluster", change: str, name: str, number: int) -> None:
    """Change the store or its watches. An object's `parity` is a label."""
    store = cluster.store
    match change:
        case "put" | "write":
            store.put(config_map("default", name, {"n": str(number)}, parity=str(number % 2)))
        case "remove":
            if store.find(CONFIG_MAPS, name, "default"):
                store.remove(CONFIG_MAPS, name, "default")
        case "compact":
            store.compact()
        case "bookmark":
            store.bookmark()
        case "end":
            cluster.end_watches()
        case "save":
            cluster.saved = store.snapshot()
        case "restore":  # from a backup: versions and objects are as they were
            cluster.restore(cluster.saved)
        case "reset":  # a new database: versions begin again
            cluster.restore(EMPTY)


async def turns(count: int = 30) -> None:
    """Let the other tasks run so often."""
    for _ in range(count):
        await asyncio.sleep(0)


class Following:
    """An informer at work, and the changes that it reported."""

    def __init__(self, cluster: SavedCluster, **options: Any) -> None:
        self.seen: Seen = []
        self.changed = asyncio.Event()
        self.informer = Informer(
            cluster, CONFIG_MAPS, on_change=self._record, **{"pace": EAGER, "rng": Random(0), **options}
        )

    def _record(self, old: Json | None, new: Json | None) -> None:
        self.seen.append((read_number(old), read_number(new)))
        self.changed.set()

    async def __aenter__(self) -> "Following":
        self._task = asyncio.create_task(self.informer.run())
        async with asyncio.timeout(10):
            await self.informer.synced.wait()
        await turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled(), "the informer ended by itself"


def read_number(obj: Json | None) -> str | None:
    """Return the number that an object holds; None where there is no object."""
    return cast("str", obj["data"]["n"]) if obj else None
