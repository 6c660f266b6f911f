"""The informer against a watch that skips, doubles, breaks and forgets: in the end it always agrees."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_common.types import Json
from steelyard_kube.cached_objects import Packed
from steelyard_kube.cluster import ObjectList, Resource, WatchEvent
from steelyard_kube.errors import NotFound
from steelyard_kube.informer import Informer, Pace
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import CONFIG_MAPS
from steelyard_kube.simulation.contract import config_map
from steelyard_kube.simulation.watches import (
    AT_ONCE,
    EAGER,
    Following,
    LossyCluster,
    SavedCluster,
    apply,
    names,
    read_number,
    turns,
)
from steelyard_kube.store import make_key

FAULTS = st.sampled_from(["", "", "skip", "double", "replay", "cut", "end", "gone", "away"])
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "write", "remove", "compact", "bookmark", "end", "save", "restore", "reset"]
        ),
        st.sampled_from("abc"),
        st.integers(0, 3),
    ),
    max_size=25,
)


def by_number(obj: Json) -> list[str]:
    return [obj["data"]["n"], f"parity-{int(obj['data']['n']) % 2}"]


@settings(deadline=None)
@given(
    plan=st.lists(FAULTS, max_size=15),
    changes=CHANGES,
    selective=st.booleans(),
    packed=st.sampled_from([False, True, lambda obj: read_number(obj) in ("1", "3")]),
)
def test_it_always_converges(
    plan: list[str], changes: list[tuple[str, str, int]], selective: bool, packed: Packed
) -> None:
    asyncio.run(converges(plan, changes, "parity=1" if selective else "", packed))


async def converges(
    plan: list[str], changes: list[tuple[str, str, int]], selector: str, packed: Packed
) -> None:
    cluster = LossyCluster(list(plan))
    seen: dict[str, str] = {}
    gaps: list[tuple[str | None, str | None]] = []

    def on_change(old: Json | None, new: Json | None) -> None:
        """Follow the changes; every one must begin where the last one ended."""
        name = (old or new or {})["metadata"]["name"]
        if seen.get(name) != read_number(old):
            gaps.append((seen.get(name), read_number(old)))
        seen.pop(name, None)
        if new:
            seen[name] = new["data"]["n"]

    informer = Informer(
        cluster,
        CONFIG_MAPS,
        label_selector=selector,
        indexes={"number": by_number},
        on_change=on_change,
        packed=packed,
        pace=EAGER,
        rng=Random(0),
    )
    running = asyncio.create_task(informer.run())
    for change in changes:
        apply(cluster, *change)
        if change[0] == "write" and (not selector or change[2] % 2):
            written = cluster.store.get(make_key(CONFIG_MAPS, "default", change[1]))
            if informer.apply_write(written) and informer.get("default", change[1]) == written:
                seen[change[1]] = written["data"]["n"]  # no listener is called, since the writer knows it
        await turns(10 * change[2])  # 0: the informer sees several changes at once
    cluster.plan.clear()
    await turns()
    cluster.store.put(config_map("default", "last", {"n": "1"}, parity="1"))  # shows any gap
    await turns(60)
    wanted = names((await MemoryCluster.list(cluster, CONFIG_MAPS, label_selector=selector)).items)
    assert names(informer.items()) == wanted == seen
    assert informer.uids() == {item["metadata"].get("uid", "") for item in informer.items()}
    assert gaps == []
    for number in ("0", "1", "2", "3", "parity-0", "parity-1"):
        indexed = names(informer.by_index("number", number))
        assert indexed == {name: n for name, n in wanted.items() if number in by_number({"data": {"n": n}})}
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_it_reports_each_change_once() -> None:
    cluster = SavedCluster()
    apply(cluster, "put", "a", 0)
    async with Following(cluster) as following:
        apply(cluster, "put", "a", 1)
        apply(cluster, "remove", "a", 0)
        await turns()
        assert following.seen == [(None, "0"), ("0", "1"), ("1", None)]
        assert following.informer.get("default", "a") is None


async def test_what_is_reported_late_is_not_believed() -> None:
    cluster = LossyCluster(["", "", "replay"])
    async with Following(cluster) as following:
        apply(cluster, "put", "a", 0)
        apply(cluster, "put", "a", 1)
        await turns()
        assert following.seen == [(None, "0"), ("0", "1")]


async def test_a_watch_that_has_run_its_time_goes_on_without_a_list() -> None:
    cluster, calls = SavedCluster(), list[str]()
    cluster.before_call = lambda verb, resource, name: calls.append(verb)
    async with Following(cluster, pace=AT_ONCE) as following:
        for number in range(3):
            apply(cluster, "put", "a", number)
            await turns()
        assert following.seen == [(None, "0"), ("0", "1"), ("1", "2")]
    assert calls.count("list") == 1
    assert calls.count("watch") > 4


async def test_a_watch_that_breaks_off_is_followed_by_a_list() -> None:
    """The server may have been restored, and its versions may have passed by now those that were seen before."""
    cluster = SavedCluster()
    async with Following(cluster) as following:
        apply(cluster, "save", "", 0)
        apply(cluster, "put", "a", 0)
        await turns()
        apply(cluster, "restore", "", 0)
        for number in range(7):
            apply(cluster, "put", "b", number)
        await turns()
        assert names(following.informer.items()) == {"b": "6"}
        assert following.seen[-1] == ("0", None)


async def test_a_watch_that_goes_back_is_followed_by_a_list() -> None:
    """A proxy may keep the connection while the server behind it is restored from a backup."""
    cluster, calls = LossyCluster(["", "", "replay"]), list[str]()
    cluster.before_call = lambda verb, resource, name: calls.append(verb)
    async with Following(cluster) as following:
        apply(cluster, "put", "a", 0)
        apply(cluster, "put", "a", 1)
        await turns()
        assert names(following.informer.items()) == {"a": "1"}
    assert calls.count("list") == 2


async def test_another_uid_is_another_object_even_with_an_older_version() -> None:
    uids = list[tuple[str, str]]()

    def uid(obj: Json | None) -> str:
        return obj["metadata"]["uid"] if obj else ""

    def on_change(old: Json | None, new: Json | None) -> None:
        uids.append((uid(old), uid(new)))

    cluster = SavedCluster()
    for number in range(5):
        apply(cluster, "put", "a", number)
    first = uid(cluster.store.find(CONFIG_MAPS, "a", "default"))
    informer = Informer(cluster, CONFIG_MAPS, on_change=on_change, pace=EAGER, rng=Random(0))
    running = asyncio.create_task(informer.run())
    await informer.synced.wait()
    await turns()
    apply(cluster, "reset", "", 0)
    again = config_map("default", "a", {"n": "4"})
    again["metadata"]["uid"] = "another"
    cluster.store.put(again)
    await turns()
    assert uids == [("", first), (first, ""), ("", "another")]
    assert uid(informer.get("default", "a")) == "another"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_an_object_of_a_restored_server_is_believed_although_its_version_was_seen_before() -> None:
    cluster = SavedCluster()
    async with Following(cluster) as following:
        apply(cluster, "save", "", 0)
        apply(cluster, "put", "a", 0)
        await turns()
        apply(cluster, "restore", "", 0)
        apply(cluster, "put", "a", 1)
        await turns()
        assert names(following.informer.items()) == {"a": "1"}


async def test_what_was_written_while_a_list_was_made_is_known_from_the_watch_alone() -> None:
    gate, listed = asyncio.Event(), asyncio.Event()
    gate.set()

    class Slow(SavedCluster):
        async def pages(self, *args: Any, **options: Any) -> AsyncIterator[ObjectList]:
            async for page in super().pages(*args, **options):
                listed.set()
                await gate.wait()
                yield page

    cluster = Slow()
    for name in "ab":
        apply(cluster, "put", name, 0)
    async with Following(cluster) as following:
        following.seen.clear()
        gate.clear()
        listed.clear()
        cluster.end_watches()
        await listed.wait()
        changed = cluster.store.put(config_map("default", "a", {"n": "1"}))
        made = cluster.store.put(config_map("default", "c", {"n": "2"}))
        assert not following.informer.apply_write(changed)
        assert not following.informer.apply_write(made)
        gate.set()
        await turns()
        assert names(following.informer.items()) == {"a": "1", "b": "0", "c": "2"}
        assert following.seen == [("0", "1"), (None, "2")]


async def test_lost_history_leads_to_a_list_that_shows_what_was_missed() -> None:
    cluster = SavedCluster()
    for name, number in (("a", 1), ("b", 2), ("c", 3)):
        apply(cluster, "put", name, number)
    async with Following(cluster) as following:
        following.seen.clear()
        cluster.end_watches()
        apply(cluster, "remove", "a", 0)
        apply(cluster, "put", "b", 7)
        cluster.store.compact()
        await turns()
        assert sorted(following.seen) == [("1", None), ("2", "7")]


async def test_bookmarks_keep_a_quiet_watch_resumable() -> None:
    cluster = SavedCluster()
    apply(cluster, "put", "a", 0)
    async with Following(cluster, label_selector="parity=0", pace=AT_ONCE):
        calls: list[str] = []
        cluster.before_call = lambda verb, resource, name: calls.append(verb)
        apply(cluster, "put", "b", 1)  # not selected
        apply(cluster, "bookmark", "", 0)
        await turns()
        cluster.store.compact()
        await turns()
        assert calls.count("watch") > 1
        assert "list" not in calls


async def test_an_index_follows_its_objects() -> None:
    cluster = SavedCluster()
    apply(cluster, "put", "a", 0)
    async with Following(cluster, indexes={"number": by_number}) as following:
        apply(cluster, "put", "a", 1)
        apply(cluster, "put", "b", 3)
        await turns()
        index = {key: names(following.informer.by_index("number", key)) for key in ("0", "1", "parity-1")}
        assert index == {"0": {}, "1": {"a": "1"}, "parity-1": {"a": "1", "b": "3"}}


async def test_a_silent_watch_is_taken_for_dead() -> None:
    class Silent(SavedCluster):
        watches = 0

        async def watch(self, *args: Any, **kwargs: Any) -> AsyncIterator[WatchEvent]:
            self.watches += 1
            if self.watches == 1:
                await asyncio.Event().wait()
            async for event in super().watch(*args, **kwargs):
                yield event

    cluster = Silent()
    async with Following(cluster, pace=Pace(backoff=0, quiet=0.02)) as following:
        apply(cluster, "put", "a", 1)
        await asyncio.wait_for(following.changed.wait(), 60)
        assert following.seen == [(None, "1")]


async def test_all_is_listed_again_from_time_to_time() -> None:
    cluster, calls = SavedCluster(), list[str]()
    cluster.before_call = lambda verb, resource, name: calls.append(verb)
    async with Following(cluster, pace=Pace(backoff=0, relist=-1)):
        cluster.end_watches()
        await turns()
    assert calls.count("list") == 2


async def test_a_kind_that_is_not_served_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    cluster, left = SavedCluster(), [3]

    def absent(verb: str, resource: Resource, name: str) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise NotFound("the server could not find the requested resource")

    cluster.before_call = absent
    async with Following(cluster) as following:
        assert following.informer.synced.is_set()
    assert "cannot follow configmaps" in caplog.text


async def test_what_was_written_is_known_before_the_watch_shows_it_and_calls_no_listener() -> None:
    cluster = SavedCluster()
    async with Following(cluster) as following:
        made = cluster.store.put(config_map("default", "a", {"n": "0"}))
        assert following.informer.apply_write(made)
        assert names(following.informer.items()) == {"a": "0"}
        await turns()
        assert following.seen == []
        apply(cluster, "put", "a", 1)
        apply(cluster, "remove", "a", 0)
        await turns()
        assert following.seen == [("0", "1"), ("1", None)]


async def test_what_was_written_and_has_gone_meanwhile_does_not_come_back() -> None:
    cluster = SavedCluster()
    async with Following(cluster) as following:
        made = cluster.store.put(config_map("default", "a", {"n": "0"}))
        apply(cluster, "put", "a", 1)
        apply(cluster, "remove", "a", 0)
        await turns()
        assert not following.informer.apply_write(made)
        assert following.informer.items() == []


async def test_an_older_answer_does_not_hide_a_newer_one() -> None:
    cluster = SavedCluster()
    async with Following(cluster) as following:
        first = cluster.store.put(config_map("default", "a", {"n": "0"}))
        second = cluster.store.put(config_map("default", "a", {"n": "1"}))
        assert following.informer.apply_write(second)
        assert following.informer.apply_write(first)
        assert names(following.informer.items()) == {"a": "1"}


async def test_what_happened_before_a_write_does_not_undo_it() -> None:
    cluster = SavedCluster()
    async with Following(cluster) as following:
        apply(cluster, "put", "a", 0)
        apply(cluster, "remove", "a", 0)
        cluster.store.put(config_map("default", "a", {"n": "1"}))
        assert following.informer.apply_write(cluster.store.put(config_map("default", "a", {"n": "2"})))
        await turns()
        assert names(following.informer.items()) == {"a": "2"}
        assert following.seen == []


async def test_a_kind_that_need_not_be_there_delays_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster, missing = SavedCluster(), True

    def absent(verb: str, resource: Resource, name: str) -> None:
        if missing:
            raise NotFound("the server could not find the requested resource")

    cluster.before_call = absent
    async with Following(cluster, optional=True, pace=Pace(backoff=0, absent=0)) as following:
        assert following.informer.items() == []
        missing = False
        apply(cluster, "put", "a", 0)
        await turns()
        assert following.seen == [(None, "0")]
        missing = True
        cluster.end_watches()
        await turns()
        assert following.seen == [(None, "0"), ("0", None)]
    assert caplog.text.count("doing without configmaps") == 2


async def test_an_object_that_cannot_be_read_is_left_out_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SavedCluster()
    apply(cluster, "put", "b", 1)
    strange = {**config_map("default", "a", {}), "data": None}
    cluster.store.put(strange)
    async with Following(cluster, indexes={"number": by_number}) as following:
        assert names(following.informer.items()) == {"b": "1"}
        apply(cluster, "put", "c", 2)
        await turns()
        assert names(following.informer.items()) == {"b": "1", "c": "2"}
        cluster.store.put({**config_map("default", "b", {}), "data": None})
        await turns()
        assert names(following.informer.items()) == {"c": "2"}
        apply(cluster, "put", "a", 3)
        await turns()
        assert names(following.informer.items()) == {"a": "3", "c": "2"}
    assert "cannot read ConfigMap default/a: left out" in caplog.text


async def test_a_reader_that_fails_on_one_change_learns_of_the_next(caplog: pytest.LogCaptureFixture) -> None:
    cluster, seen = SavedCluster(), list[str]()

    def on_change(old: Json | None, new: Json | None) -> None:
        if read_number(new) == "7":
            raise KeyError("seven")
        seen.append(read_number(new) or "")

    informer = Informer(cluster, CONFIG_MAPS, on_change=on_change, pace=EAGER, rng=Random(0))
    running = asyncio.create_task(informer.run())
    await informer.synced.wait()
    await turns()
    for name, number in (("a", 1), ("a", 7), ("b", 2)):
        apply(cluster, "put", name, number)
        await turns()
    assert seen == ["1", "2"]
    assert names(informer.items()) == {"a": "7", "b": "2"}
    assert "a change of ConfigMap default/a was lost" in caplog.text
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_managed_fields_are_dropped() -> None:
    cluster = SavedCluster()
    obj = config_map("default", "a", {"n": "0"})
    obj["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    cluster.store.put(obj)
    async with Following(cluster) as following:
        (kept,) = following.informer.items()
        assert "managedFields" not in kept["metadata"]
