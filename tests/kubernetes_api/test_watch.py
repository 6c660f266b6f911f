"""Watches: where they begin, what they send, how they end."""

import asyncio

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import TABLE, Api, config_map

LABELLED = "labelSelector=on%3Dyes"
STREAMED = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def put(api: Api, core: str, name: str, value: str, **labels: str) -> Json:
    body = config_map(name, {"v": value}, labels=labels)
    path = f"{core}/configmaps"
    if (await api.get(f"{path}/{name}")).status == 404:
        return (await api.post(path, body)).ok(201).json
    return (await api.put(f"{path}/{name}", body)).ok(200).json


async def test_a_watch_resumes_after_its_version_and_skips_nothing(api: Api, core: str) -> None:
    first = await put(api, core, "a", "0", on="yes")
    written = [await put(api, core, "a", str(index), on="yes") for index in range(1, 6)]
    versions = [obj["metadata"]["resourceVersion"] for obj in written]
    for start, expected in ((first["metadata"]["resourceVersion"], versions), (versions[1], versions[2:])):
        path = f"{core}/configmaps?watch=1&resourceVersion={start}&{LABELLED}"
        async with api.watch(path) as events:
            seen = [(await events.next())["object"]["metadata"]["resourceVersion"] for _ in expected]
        assert seen == expected


async def test_events_come_in_the_order_of_the_writes(api: Api, core: str) -> None:
    start = (await api.get(f"{core}/configmaps")).version
    async with api.watch(f"{core}/configmaps?watch=1&resourceVersion={start}") as events:
        await put(api, core, "x", "1")
        await put(api, core, "x", "2")
        await put(api, core, "y", "1")
        await put(api, core, "y", "1")  # writes nothing: no event
        (await api.delete(f"{core}/configmaps/x")).ok(200)
        await put(api, core, "z", "1")
        names: list[str] = []
        while len(names) < 5:
            names += [line for line in await events.take(1) if "kube-root-ca" not in line]
    assert names == ["ADDED x", "MODIFIED x", "ADDED y", "DELETED x", "ADDED z"]


async def test_a_deletion_has_a_version_of_its_own(api: Api, core: str) -> None:
    made = await put(api, core, "d", "1", on="yes")
    start = made["metadata"]["resourceVersion"]
    (await api.delete(f"{core}/configmaps/d")).ok(200)
    async with api.watch(f"{core}/configmaps?watch=1&resourceVersion={start}&{LABELLED}") as events:
        event = await events.next()
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(start)
    assert event["object"]["data"] == {"v": "1"}


async def test_objects_enter_and_leave_a_selection(api: Api, core: str) -> None:
    start = (await api.get(f"{core}/configmaps")).version
    for value, on in (("1", "no"), ("2", "yes"), ("3", "yes"), ("4", "no"), ("5", "yes")):
        await put(api, core, "s", value, on=on)
    (await api.delete(f"{core}/configmaps/s")).ok(200)
    async with api.watch(f"{core}/configmaps?watch=1&resourceVersion={start}&{LABELLED}") as events:
        seen = [await events.next() for _ in range(5)]
    changes = [(event["type"], event["object"]["data"]["v"]) for event in seen]
    assert changes == [("ADDED", "2"), ("MODIFIED", "3"), ("DELETED", "3"), ("ADDED", "5"), ("DELETED", "5")]
    assert [int(e["object"]["metadata"]["resourceVersion"]) for e in seen] == sorted(
        int(e["object"]["metadata"]["resourceVersion"]) for e in seen
    )


@pytest.mark.parametrize("version", ["", "&resourceVersion=0"])
async def test_without_a_version_a_watch_begins_with_what_is_there(api: Api, core: str, version: str) -> None:
    await put(api, core, "a", "1", on="yes")
    await put(api, core, "b", "1", on="yes")

    async def caught_up() -> bool:  # the watch cache of a real server may lag behind for version 0
        async with api.watch(f"{core}/configmaps?watch=1&{LABELLED}{version}&timeoutSeconds=1") as events:
            rest = await events.rest()
        return [f"{e['type']} {e['object']['metadata']['name']}" for e in rest] == ["ADDED a", "ADDED b"]

    await api.eventually(caught_up, "both objects in the watch")


async def test_initial_events_end_with_a_marked_bookmark(api: Api, core: str) -> None:
    await put(api, core, "a", "1", on="yes")
    async with api.watch(f"{core}/configmaps?{STREAMED}&{LABELLED}") as events:
        assert (await events.next())["type"] == "ADDED"
        bookmark = await events.next()
        await put(api, core, "b", "1", on="yes")
        assert await events.take(1) == ["ADDED b"]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > 0


async def test_initial_events_need_their_match(api: Api, core: str) -> None:
    answer = await api.get(f"{core}/configmaps?watch=1&sendInitialEvents=true&timeoutSeconds=1")
    assert answer.status == 422
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in answer.message


async def test_a_watch_ends_at_its_timeout(api: Api, core: str) -> None:
    start = (await api.get(f"{core}/configmaps")).version
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with api.watch(f"{core}/configmaps?watch=1&resourceVersion={start}&timeoutSeconds=1") as events:
        await events.rest()
    assert 0.5 < loop.time() - begun < 60


async def test_a_watch_of_one_object(api: Api, core: str) -> None:
    start = (await api.get(f"{core}/configmaps")).version
    path = f"{core}/configmaps?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3Donly"
    async with api.watch(path) as events:
        await put(api, core, "other", "1")
        await put(api, core, "only", "1")
        assert await events.take(1) == ["ADDED only"]


async def test_a_watched_table_has_its_columns_once(api: Api, core: str) -> None:
    await put(api, core, "a", "1", on="yes")
    async with api.watch(f"{core}/configmaps?watch=1&{LABELLED}", accept=TABLE) as events:
        first = (await events.next())["object"]
        await put(api, core, "a", "2", on="yes")
        second = (await events.next())["object"]
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert not second["columnDefinitions"]
    assert second["rows"][0]["cells"][:2] == ["a", 1]


async def test_many_watches_see_the_same(api: Api, core: str) -> None:
    start = (await api.get(f"{core}/configmaps")).version
    path = f"{core}/configmaps?watch=1&resourceVersion={start}&{LABELLED}"

    async def follow() -> list[str]:
        async with api.watch(path) as events:
            return [(await events.next())["object"]["metadata"]["resourceVersion"] for _ in range(20)]

    watches = [asyncio.create_task(follow()) for _ in range(8)]
    written = [
        (await put(api, core, "w", str(i), on="yes"))["metadata"]["resourceVersion"] for i in range(20)
    ]
    assert await asyncio.gather(*watches) == [written] * 8
