"""Behaviour of every view when the sink writes to it: the other half of `view`."""

import asyncio
from collections.abc import Awaitable, Mapping

from steelyard.engines.origin import Origin
from steelyard.testing.engines.view import Case, change, dataset, deletion, ids, put
from steelyard.views.view import STATE, Change, Position, Query, View, ViewError


async def an_older_change_is_left_out(view: View) -> None:
    await view.apply([change(dataset("d1", status="Ready"), 5)], 1, {0: 6})
    late = [change(dataset("d1", status="Created"), 4), change(dataset("d1", status="Error"), 5)]
    await view.apply(late, 1, {0: 5})
    assert await ids(view, Query("Dataset", filters={"status": ["Ready"]})) == ["d1"]
    assert await view.positions(1) == {0: 6}, "positions do not go back either"


async def the_latest_change_of_a_batch_counts(view: View) -> None:
    both = [change(dataset("d1", status="Ready"), 2), change(dataset("d1", status="Created"), 1)]
    await view.apply(
        [*both, change(dataset("d2"), 3), deletion("d2", 4), deletion("d3", 5), change(dataset("d3"), 6)],
        1,
        {},
    )
    assert [(stored.id, stored.position.offset) for stored in await view.query(Query("Dataset"))] == [
        ("d1", 2),
        ("d3", 6),
    ]


async def a_forgotten_entity_does_not_come_back(view: View) -> None:
    await put(view, dataset("d1"))
    await view.apply([deletion("d1", 7)], 1, {0: 8})
    await view.apply([change(dataset("d1"), 6), change(dataset("d1"), 7)], 1, {})
    assert await view.get("Dataset", "d1") is None
    assert await view.query(Query("Dataset")) == []
    await view.apply([deletion("d1", 5)], 1, {})
    await view.apply([change(dataset("d1"), 6)], 1, {})
    assert await view.get("Dataset", "d1") is None
    await view.apply([change(dataset("d1"), 8)], 1, {})
    assert await view.get("Dataset", "d1") is not None
    await view.apply([deletion("d1", 7)], 1, {})
    assert await view.get("Dataset", "d1") is not None


async def positions_are_of_one_epoch(view: View) -> None:
    assert await view.positions(1) == {}
    await view.apply([], 1, {0: 3, 5: 1})
    await view.apply([], 1, {5: 2})
    assert await view.positions(1) == {0: 3, 5: 2}
    assert await view.positions(2) == {}
    await view.apply([], 2, {1: 1})
    assert await view.positions(2) == {1: 1}
    assert await view.positions(1) == {}
    await expect_refusal(view.apply([change(dataset("d1"), 99)], 1, {0: 9}))
    assert await view.find("d1") is None


async def a_rebuilt_log_is_the_truth(view: View) -> None:
    """Even where it was restored to an earlier state; what it does not name is swept, and only once it is read."""
    await put(view, dataset("d1", status="Error"), dataset("d2"), dataset("d3"))
    await view.apply([deletion("d3", 8)], 1, {0: 9})
    restored = [change(dataset("d1", status="Created"), 0), change(dataset("d3"), 1)]
    await view.apply(restored, 2, {0: 2})
    assert await ids(view, Query("Dataset")) == ["d1", "d2", "d3"]
    assert await ids(view, Query("Dataset", filters={"status": ["Created"]})) == ["d1"]
    await expect_refusal(view.sweep(2, {0: 3}))
    await view.apply([], 2, {0: 3})
    assert await view.sweep(2, {0: 3}) == 1
    assert await ids(view, Query("Dataset")) == ["d1", "d3"]
    assert await view.sweep(2, {0: 3}) == 0


async def an_empty_rebuilt_log_empties_the_view(view: View) -> None:
    await put(view, dataset("d1"))
    assert await view.sweep(1, {0: 1}) == 0
    assert await view.sweep(2, {0: 0, 1: 0}) == 1
    assert await view.query(Query("Dataset")) == []


async def a_view_that_was_away_reads_everything_anew(view: View) -> None:
    """Records that it knows already name their entities all the same."""
    await put(view, dataset("d1", labels={"x": "1"}), dataset("d2", labels={"x": "1"}))
    await view.sweep(1, {0: 2})
    await view.restart(1)
    assert await view.positions(1) == {}
    assert await ids(view, Query("Dataset")) == ["d1", "d2"]
    await view.apply([change(dataset("d1", labels={"x": "1"}), 1)], 1, {0: 5})
    assert await view.sweep(1, {0: 5}) == 1
    assert await ids(view, Query("Dataset", labels={"x": "1"})) == ["d1"]


async def a_view_belongs_to_one_log(view: View) -> None:
    """Another log, or a later epoch of it, is read again; the same one goes on."""
    assert await view.origin() is None
    await view.set_origin("one", 3)
    await view.apply([change(dataset("d1"), 1, 3), change(dataset("d2"), 2, 3)], 3, {0: 3})
    await view.set_origin("one", 3)
    assert await view.origin() == Origin("one", 3, {STATE: {0: 3}})
    for log, epoch in (("one", 4), ("two", 1)):
        await view.set_origin(log, epoch)
        assert await view.origin() == Origin(log, epoch, {STATE: {}})
        assert await ids(view, Query("Dataset")) == ["d1", "d2"], "nothing goes before the log is read"
    await view.apply([change(dataset("d2"), 1, 1)], 1, {0: 2})
    assert await view.sweep(1, {0: 2}) == 1
    assert await ids(view, Query("Dataset")) == ["d2"]


async def a_view_of_an_earlier_version_is_adopted(view: View) -> None:
    await put(view, dataset("d1"))
    assert await view.origin() == Origin("", 1, {STATE: {0: 1}})
    await view.set_origin("one", 1)
    assert await view.origin() == Origin("one", 1, {STATE: {0: 1}})


async def a_change_that_is_none_changes_nothing(view: View) -> None:
    for wrong in (b"{", b"[]", b"{}", b'{"kind": "Spoon", "id": "x"}'):
        changes = [change(dataset("d1"), 1), Change("x", wrong, Position(1, 2))]
        await expect_refusal(view.apply(changes, 1, {0: 3}))
    assert await view.find("d1") is None
    assert await view.positions(1) == {}


async def a_change_wakes_those_who_wait(view: View) -> None:
    since = view.version()
    assert await view.wait_for_change(since, 0.01) == since
    waiting = asyncio.create_task(view.wait_for_change(since, 30))
    await asyncio.sleep(0)
    await put(view, dataset("d1"))
    assert await waiting != since
    assert await view.wait_for_change(since, 30) != since, "a change between the look and the call counts"


async def expect_refusal(call: Awaitable[object]) -> None:
    try:
        await call
    except ViewError:
        return
    raise AssertionError("it should have been refused")


CASES: Mapping[str, Case] = {
    case.__name__: case
    for case in (
        an_older_change_is_left_out,
        the_latest_change_of_a_batch_counts,
        a_forgotten_entity_does_not_come_back,
        positions_are_of_one_epoch,
        a_rebuilt_log_is_the_truth,
        an_empty_rebuilt_log_empties_the_view,
        a_view_that_was_away_reads_everything_anew,
        a_view_belongs_to_one_log,
        a_view_of_an_earlier_version_is_adopted,
        a_change_that_is_none_changes_nothing,
        a_change_wakes_those_who_wait,
    )
}
