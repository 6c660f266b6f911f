"""Dictionaries of thousands of entries that went: their room goes with them, in every owner of one."""

import gc
import sys
from collections import OrderedDict, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard_kube.cached_objects import CachedObjects
from steelyard_kube.events import EventRecorder
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.tables import shrunk

MANY = 3000
ROOM = 16_384


def filled(table: dict[int, int]) -> dict[int, int]:
    table.update((number, number) for number in range(MANY))
    return table


@pytest.mark.parametrize(
    "table", [{}, OrderedDict(), defaultdict(int)], ids=lambda table: type(table).__name__
)
def test_an_emptied_table_is_made_again(table: dict[int, int]) -> None:
    filled(table)
    assert shrunk(table) is table
    for number in range(5, MANY):
        del table[number]
    smaller = shrunk(table)
    assert (type(smaller), list(smaller.items())) == (type(table), [(number, number) for number in range(5)])
    assert sys.getsizeof(smaller) < ROOM < sys.getsizeof(table)
    assert shrunk(smaller) is smaller


def largest(*roots: object) -> int:
    """Return the size of the largest dictionary that objects of this project hold."""
    seen, waiting, sizes = set[int](), list(roots), [0]
    while waiting:
        obj = waiting.pop()
        if id(obj) not in seen and (isinstance(obj, dict) or type(obj).__module__.startswith("steelyard")):
            seen.add(id(obj))
            sizes += [sys.getsizeof(obj)] if isinstance(obj, dict) else []
            waiting += gc.get_referents(obj)
    return max(sizes)


def make(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "resourceVersion": "1",
        },
    }


def test_a_cache_of_objects_that_are_gone_is_small() -> None:
    objects = CachedObjects({"name": lambda obj: [obj["metadata"]["name"]]})
    for number in range(MANY):
        objects.put(("default", f"pod-{number}"), make(number))
    assert largest(objects) > ROOM
    for number in range(5, MANY):
        objects.put(("default", f"pod-{number}"), None)
    assert largest(objects) < ROOM
    assert len(objects.items()) == len(objects.counts("name")) == 5


async def test_a_recorder_of_forgotten_events_is_small() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    recorder = EventRecorder(MemoryCluster(), component="test", now=lambda: now)
    for number in range(500):
        recorder.record(make(number), "Normal", "Tested", "")
    await recorder.flush()
    assert largest(recorder._written) > ROOM
    now += timedelta(hours=1)
    recorder.forget()
    assert largest(recorder._written) < ROOM
