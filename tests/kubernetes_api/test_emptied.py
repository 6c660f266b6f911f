"""Room that the server and the kubelet take for what they remember of thousands of objects, when these are gone."""

from datetime import UTC, datetime
from pathlib import Path

from steelyard_kube.test_tables import MANY, ROOM, largest, make
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, make_parts
from steelyard_local_kubernetes.apiserver.store import Store
from steelyard_local_kubernetes.kubelet.ended_pods import EndedPods


async def test_a_store_whose_objects_are_gone_is_small() -> None:
    store = Store(None)
    for number in range(MANY):
        obj = make(number)
        labels, owner = {"number": str(number)}, {"ownerReferences": [{"uid": f"owner-{number}"}]}
        store.put("pods", {**obj, "metadata": {**obj["metadata"], "labels": labels, **owner}})
    await store.wait_durable()
    assert store.bucket("pods").find_by_label("number", ["7"], None)
    assert largest(store) > ROOM
    for number in range(5, MANY):
        store.remove("pods", make(number))
    await store.wait_durable()
    store.age(0)
    assert largest(store) < ROOM
    assert len(store.bucket("pods").items()) == 5
    assert len(store.bucket("pods").find_by_label("number", ["3"], None) or ()) == 1


async def test_an_expiry_of_events_that_are_gone_is_small(tmp_path: Path) -> None:
    parts = await make_parts(
        ApiServerConfig(None, tmp_path, {}), Clock(lambda: datetime(2026, 1, 1, tzinfo=UTC))
    )
    for change in (parts.store.put, parts.store.remove):
        for number in range(MANY):
            change("events", make(number))
        await parts.store.wait_durable()
    assert largest(parts.expiry._written) > ROOM
    await parts.expiry.expire()
    assert largest(parts.expiry._written) < ROOM


def test_the_ended_pods_that_are_gone_take_no_room() -> None:
    ended = EndedPods()
    for number in range(MANY):
        ended.add(str(number), "1", "1")
    assert largest(ended) > ROOM
    for number in range(MANY):
        assert ended.remove(str(number))
    assert largest(ended) < ROOM
