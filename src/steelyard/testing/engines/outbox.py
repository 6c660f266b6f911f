"""Behaviour of the outbox in every accounts database. Engines run each of `CASES`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from steelyard.accounts.database import LeaseEnded
from steelyard.accounts.outbox import Outbox, OutboxRow
from steelyard.engines.processes import own_process

Case = Callable[[Outbox], Awaitable[None]]
NOW = datetime(2026, 1, 31, 12, 0, 0, 123457, tzinfo=UTC)


def row(  # noqa: PLR0913 (what a row of a case may differ in)
    command: str,
    *,
    request: str = "",
    key: str | None = None,
    seconds: float = 0,
    account: str = "a",
    kind: str = "Dataset",
    entity: str = "",
    server: str = "",
) -> OutboxRow:
    return OutboxRow(
        command=command,
        account=account,
        kind=kind,
        entity=entity or f"e-{command}",
        created=NOW + timedelta(seconds=seconds),
        topic_key=f"e-{command}",
        value=b'{"a": "\xc3\xa4"}',
        headers={"id": command, "source": "api"},
        request=request or f"request {command}",
        idempotency_key=key,
        ends=7,
        server=server,
    )


LONG = 3600.0
"""Seconds of a lease that does not end while a case runs; one of 0 s has ended at once."""


def commands(rows: Sequence[OutboxRow]) -> str:
    return " ".join(row.command for row in rows)


async def a_row_is_kept_as_it_was_given(outbox: Outbox) -> None:
    first = row("c1", key="k")
    assert await outbox.add(first) == first
    assert list(await outbox.pending()) == [first] == list(await outbox.unsent())


async def the_backlog_is_counted_without_being_read(outbox: Outbox) -> None:
    assert await outbox.backlog() == (0, None)
    await outbox.add(row("c1"))
    await outbox.add(row("c2", seconds=5), [row("c3", seconds=5)])
    assert await outbox.backlog() == (3, NOW)
    await outbox.note_sent("c1", (0, 1))
    assert await outbox.backlog() == (2, NOW + timedelta(seconds=5))
    await outbox.visible(["c2", "c3"])
    assert await outbox.backlog() == (0, None)


async def rows_of_one_request_are_kept_together(outbox: Outbox) -> None:
    await outbox.add(row("c3"), [row("c1"), row("c2")])
    assert commands(await outbox.pending()) == "c3 c1 c2"


async def rows_of_one_request_are_kept_all_or_none(outbox: Outbox) -> None:
    await outbox.add(row("c1"))
    try:
        await outbox.add(row("c2"), [row("c3"), row("c1")])  # a command has one id
    except Exception:  # noqa: BLE001 - each form has its own
        assert commands(await outbox.pending()) == "c1"
    else:
        raise AssertionError("a command's id was taken twice")


async def a_bad_row_among_others_fails_alone(outbox: Outbox) -> None:
    await outbox.add(row("c1"))
    await outbox.begin("s1", LONG)
    added = await asyncio.gather(
        outbox.add(row("c2", server="s1")),
        outbox.add(row("c3"), [row("c1")]),  # a command has one id
        outbox.note_lost(["c1"]),
        outbox.add(row("c4", server="unregistered")),
        outbox.add(row("c5")),
        return_exceptions=True,
    )
    assert isinstance(added[1], Exception)
    assert not isinstance(added[1], LeaseEnded)
    assert isinstance(added[3], LeaseEnded)
    assert [added[number] for number in (0, 2, 4)] == [row("c2", server="s1"), None, row("c5")]
    kept = await outbox.pending()
    assert commands(kept) == "c1 c2 c5"
    assert [stored.delivery for stored in kept] == ["lost", "open", "open"]


async def a_caller_that_gives_up_takes_no_other_with_it(outbox: Outbox) -> None:
    tasks = [asyncio.ensure_future(outbox.add(row(f"c{number}"))) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    added = await asyncio.gather(*tasks, return_exceptions=True)
    assert [added[0], added[2]] == [row("c0"), row("c2")]
    assert {"c0", "c2"} <= {stored.command for stored in await outbox.pending()}
    assert await outbox.add(row("c3")) == row("c3")


async def notes_at_once_keep_their_order(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r"))
    # A lost row is found by the repeat that comes after the note, and is answered by the one after that.
    _, repeat, _, new = await asyncio.gather(
        outbox.note_lost(["c1"]),
        outbox.add(row("c2", request="r", seconds=1)),
        outbox.note_answered(["c1"]),
        outbox.add(row("c3", request="r", seconds=1)),
    )
    assert (repeat.command, new.command) == ("c1", "c3")
    assert [stored.delivery for stored in await outbox.pending()] == ["answered", "open"]


async def a_key_gives_the_same_row_for_ever(outbox: Outbox) -> None:
    first = await outbox.add(row("c1", key="k"), [row("c2")])
    await outbox.note_sent("c1", (3, 14))
    await outbox.note_answered(["c1"])
    await outbox.visible(["c1"])
    again = await outbox.add(row("c3", key="k", request="another", seconds=9000), [row("c4")])
    assert again == replace(first, position=(3, 14), delivery="answered")
    assert commands(await outbox.pending()) == "c2"


async def a_key_is_its_accounts_own(outbox: Outbox) -> None:
    await outbox.add(row("c1", key="k"))
    assert (await outbox.add(row("c2", key="k", account="b"))).command == "c2"
    assert (await outbox.add(row("c3", key="other"))).command == "c3"


async def equal_requests_in_flight_are_rows_of_their_own(outbox: Outbox) -> None:
    rows = [row(f"c{n}", request="r") for n in range(20)]
    assert list(await asyncio.gather(*map(outbox.add, rows))) == rows
    # Requests that come at once have no order.
    assert sorted(await outbox.pending(), key=lambda kept: kept.command) == sorted(
        rows, key=lambda given: given.command
    )


async def a_repeated_request_gives_the_row_whose_answer_was_lost(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r"))
    await outbox.note_lost(["c1", "unknown"])
    assert (await outbox.add(row("c3", request="r", seconds=59, account="b"))).command == "c3"
    assert (await outbox.add(row("c4", request="other"))).command == "c4"
    assert await outbox.add(row("c2", request="r", seconds=59)) == row("c1", request="r")


async def a_lost_row_is_found_by_one_repeat(outbox: Outbox) -> None:
    for number in range(3):
        await outbox.add(row(f"c{number}", request="r"))
    await outbox.note_lost(["c2", "c0"])
    repeats = [await outbox.add(row(f"d{number}", request="r", seconds=1)) for number in range(3)]
    assert commands(repeats) == "c0 c2 d2"
    await outbox.note_lost(["c0"])
    assert (await outbox.add(row("e0", request="r", seconds=2))).command == "c0"


async def a_repeat_that_is_only_asked_for_adds_nothing(outbox: Outbox) -> None:
    assert await outbox.find_repeat(row("c0", request="r")) is None
    await outbox.add(row("c1", request="r"))
    assert await outbox.find_repeat(row("c2", request="r")) is None
    await outbox.note_lost(["c1"])
    assert await outbox.find_repeat(row("c3", request="r", account="b")) is None
    assert await outbox.find_repeat(row("c4", request="r", seconds=61)) is None
    assert await outbox.find_repeat(row("c5", request="r", seconds=59)) == row("c1", request="r")
    assert await outbox.find_repeat(row("c6", request="r", seconds=59)) is None
    await outbox.add(row("c7", key="k"))
    assert await outbox.find_repeat(row("c8", key="k")) == row("c7", key="k")
    assert commands(await outbox.pending()) == "c1 c7"
    try:
        await outbox.find_repeat(row("c9", request="r", server="unregistered"))
    except LeaseEnded:
        return
    raise AssertionError("a server that is not registered was answered")


async def rows_that_a_server_left_open_are_lost(outbox: Outbox) -> None:
    await outbox.begin("s1", 0)
    await outbox.add(row("c1", request="r", server="s1"))
    await outbox.add(row("c2", request="answered", server="s1"))
    await outbox.add(row("c3", request="shown", server="s1"))
    await outbox.note_answered(["c2"])
    await outbox.visible(["c3"])
    await outbox.begin("s2", LONG)
    assert commands(await outbox.take_over("s2")) == "c1 c2"
    repeat = await outbox.add(row("d1", request="r", seconds=1, server="s2"))
    assert repeat == row("c1", request="r", server="s2")
    assert (await outbox.add(row("d2", request="answered", seconds=1, server="s2"))).command == "d2"
    assert (await outbox.add(row("d3", request="shown", seconds=1, server="s2"))).command == "c3"


async def servers_have_rows_of_their_own(outbox: Outbox) -> None:
    for server in ("s1", "s2"):
        await outbox.begin(server, LONG)
    await outbox.add(row("c1", server="s1"), [row("c2", server="s1")])
    await outbox.add(row("c3", server="s2"))
    await outbox.note_sent("c1", (0, 1))
    assert commands(await outbox.unsent("s1")) == "c2"
    assert commands(await outbox.unsent("s2")) == "c3"
    assert commands(await outbox.unsent()) == "c2 c3"
    assert commands(await outbox.pending()) == "c1 c2 c3"
    assert await outbox.take_over("s1") == []
    assert commands(await outbox.unsent("s2")) == "c3"


async def a_server_whose_lease_has_ended_is_taken_over(outbox: Outbox) -> None:
    for server, seconds in (("ended", 0.0), ("lives", LONG), ("heir", LONG)):
        await outbox.begin(server, seconds)
        await outbox.add(row(f"{server} sent", server=server), [row(f"{server} unsent", server=server)])
        await outbox.note_sent(f"{server} sent", (0, 1))
    taken = await outbox.take_over("heir")
    assert commands(taken) == "ended sent ended unsent"
    assert {(given.server, given.delivery) for given in taken} == {("heir", "lost")}
    assert list(await outbox.unsent("heir")) == [taken[1], row("heir unsent", server="heir")]
    assert await outbox.unsent("ended") == []
    assert commands(await outbox.unsent("lives")) == "lives unsent"
    assert await outbox.take_over("lives") == []


async def a_server_that_was_taken_over_adds_and_renews_nothing(outbox: Outbox) -> None:
    await outbox.begin("s1", 0)
    await outbox.begin("s2", LONG)
    await outbox.take_over("s2")
    late_calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: outbox.add(row("c1", server="s1")),
        lambda: outbox.renew("s1", LONG),
        lambda: outbox.take_over("s1"),
    )
    for late in late_calls:
        try:
            await late()
        except LeaseEnded:
            continue
        raise AssertionError("a server that was taken over went on")
    assert await outbox.pending() == []


async def a_lease_that_is_renewed_goes_on(outbox: Outbox) -> None:
    await outbox.begin("s1", 0)
    await outbox.begin("s2", LONG)
    await outbox.add(row("c1", server="s1"))
    await outbox.renew("s1", LONG)
    assert await outbox.take_over("s2") == []
    await outbox.add(row("c2", server="s1"))
    await outbox.renew("s1", 0)
    assert commands(await outbox.take_over("s2")) == "c1 c2"


async def a_server_that_ends_is_taken_over_at_once(outbox: Outbox) -> None:
    for server in ("s1", "s2"):
        await outbox.begin(server, LONG)
    await outbox.add(row("c1", server="s1"))
    await outbox.end("s1")
    assert commands(await outbox.take_over("s2")) == "c1"


async def a_process_that_has_ended_is_taken_over_at_once(outbox: Outbox) -> None:
    rest, _, started = own_process().rpartition("-")
    await outbox.begin("lives", LONG, own_process())
    await outbox.begin("ended", LONG, f"{rest}-{int(started or 1) - 1}")  # this number was another's before
    await outbox.begin("elsewhere", LONG, "another machine-1-1")
    await outbox.begin("heir", LONG, own_process())
    for server in ("lives", "ended", "elsewhere"):
        await outbox.add(row(server, server=server))
    assert commands(await outbox.take_over("heir")) == ("ended" if rest else "")


async def rows_without_a_server_go_to_one_server(outbox: Outbox) -> None:
    await outbox.add(row("c1"), [row("c2")])
    await outbox.begin("ended", 0)
    await outbox.add(row("c3", server="ended"))
    heirs = [f"s{n}" for n in range(8)]
    for heir in heirs:
        await outbox.begin(heir, LONG)
    taken = await asyncio.gather(*map(outbox.take_over, heirs))
    assert [commands(rows) for rows in taken if rows] == ["c1 c2 c3"]
    owner = heirs[next(number for number, rows in enumerate(taken) if rows)]
    assert {given.server for given in await outbox.pending()} == {owner}


async def rows_that_the_log_has_lost_belong_to_no_server(outbox: Outbox) -> None:
    await outbox.begin("s1", LONG)
    await outbox.add(row("c1", server="s1"))
    await outbox.note_sent("c1", (0, 1))
    await outbox.visible(["c1"])
    await outbox.unsend({"c1": 3})
    assert await outbox.unsent("s1") == []
    (taken,) = await outbox.take_over("s1")
    assert (taken.command, taken.server, taken.ends, taken.position) == ("c1", "s1", 3, None)


async def a_request_that_is_open_elsewhere_is_in_doubt(outbox: Outbox) -> None:
    for server in ("s1", "s2"):
        await outbox.begin(server, LONG)
    await outbox.renew("s1", LONG)
    await outbox.add(row("c1", request="r", server="s1"))
    new = row("c2", request="r", seconds=59, server="s2")
    assert await outbox.in_doubt(new) == {"s1": 1}
    await outbox.renew("s1", LONG)
    assert await outbox.in_doubt(new) == {"s1": 2}
    for other in (
        replace(new, server="s1"),
        replace(new, request="other"),
        replace(new, account="b"),
        row("c2", request="r", seconds=61, server="s2"),
    ):
        assert await outbox.in_doubt(other) == {}
    await outbox.note_answered(["c1"])
    assert await outbox.in_doubt(new) == {}
    await outbox.add(row("c3", request="r", key="k", server="s1"))
    assert await outbox.in_doubt(new) == {}, "with a key it is no repeat of one without"


async def a_repeat_belongs_to_the_server_that_it_came_to(outbox: Outbox) -> None:
    for server in ("s1", "s2"):
        await outbox.begin(server, LONG)
    await outbox.add(row("c1", request="r", server="s1"))
    await outbox.note_lost(["c1"])
    again = await outbox.add(row("c2", request="r", seconds=1, server="s2"))
    assert again == row("c1", request="r", server="s2")
    assert (commands(await outbox.unsent("s1")), commands(await outbox.unsent("s2"))) == ("", "c1")
    keyed = row("c3", key="k", server="s1")
    await outbox.add(keyed)
    assert await outbox.add(row("c4", key="k", server="s2")) == keyed, "its first request is in flight"


async def a_request_is_new_once_the_earlier_one_was_answered(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r"))
    await outbox.note_answered(["c1", "unknown"])
    await outbox.note_lost(["c1"])
    assert (await outbox.add(row("c2", request="r", seconds=1))).command == "c2"


async def a_request_is_new_after_its_window(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r"))
    await outbox.note_lost(["c1"])
    assert (await outbox.add(row("c2", request="r", seconds=61))).command == "c2"
    assert (await outbox.add(row("c3", request="r", seconds=66), window_seconds=1)).command == "c3"


async def a_request_without_a_key_is_no_repeat_of_one_with(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r", key="k"))
    await outbox.note_lost(["c1"])
    assert (await outbox.add(row("c2", request="r"))).command == "c2"


async def one_row_of_many_with_a_key_is_kept(outbox: Outbox) -> None:
    added = await asyncio.gather(*(outbox.add(row(f"c{n}", key="k")) for n in range(20)))
    assert len({stored.command for stored in added}) == 1
    assert len(await outbox.pending()) == 1


async def rows_to_send_are_listed_in_order(outbox: Outbox) -> None:
    for n in range(4):
        await outbox.add(row(f"c{n}"))
    await outbox.note_sent("c1", (0, 5))
    await outbox.visible(["c2"])  # rejected, or shown after all: no server sends it again
    assert commands(await outbox.unsent()) == "c0 c3"
    assert [pending.position for pending in await outbox.pending()] == [None, (0, 5), None]


async def pending_rows_are_found_by_kind_and_by_entity(outbox: Outbox) -> None:
    await outbox.add(row("c1", entity="e1"))
    await outbox.add(row("c2", kind="Model", entity="e2"))
    await outbox.add(row("c3", entity="e1"))
    assert commands(await outbox.pending("Dataset")) == "c1 c3"
    assert commands(await outbox.pending("Dataset", "e1")) == "c1 c3"
    assert commands(await outbox.pending(entity="e2")) == "c2"
    assert commands(await outbox.pending("Dataset", "e2")) == ""
    await outbox.visible(["c1"])
    assert commands(await outbox.pending(entity="e1")) == "c3"


async def the_first_row_of_a_key_is_found(outbox: Outbox) -> None:
    assert await outbox.find_accepted("a", "k") is None
    await outbox.add(row("first", key="k"))
    await outbox.add(row("repeat", key="k"))
    await outbox.add(row("other", key="l"))
    await outbox.note_sent("first", (0, 3))
    first = await outbox.find_accepted("a", "k")
    assert first is not None
    assert (first.command, first.position, first.request) == ("first", (0, 3), row("first").request)
    assert await outbox.find_accepted("b", "k") is None
    await outbox.visible(["first"])
    assert await outbox.find_accepted("a", "k"), "a repeat may come long after reads do without the row"
    await outbox.expire(NOW + timedelta(seconds=50))
    assert await outbox.find_accepted("a", "k") is None


async def old_visible_rows_go(outbox: Outbox) -> None:
    await outbox.add(row("old", key="k"))
    await outbox.add(row("unseen"))
    await outbox.add(row("new", seconds=100))
    await outbox.visible(["old", "new"])
    assert await outbox.expire(NOW) == 0
    assert await outbox.expire(NOW + timedelta(seconds=50)) == 1
    assert commands(await outbox.pending()) == "unseen"
    assert await outbox.find_expired("a", "k") == row("old").request
    assert await outbox.find_expired("b", "k") is None
    assert (await outbox.add(row("again", key="k", request="another", seconds=100))).command == "again"
    await outbox.visible(["again"])
    assert await outbox.expire(NOW + timedelta(seconds=200)) == 2
    assert await outbox.find_expired("a", "k") == row("old").request, "the first one's, whatever came later"


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        a_row_is_kept_as_it_was_given,
        the_backlog_is_counted_without_being_read,
        rows_of_one_request_are_kept_together,
        rows_of_one_request_are_kept_all_or_none,
        a_bad_row_among_others_fails_alone,
        the_first_row_of_a_key_is_found,
        a_caller_that_gives_up_takes_no_other_with_it,
        notes_at_once_keep_their_order,
        a_key_gives_the_same_row_for_ever,
        a_key_is_its_accounts_own,
        equal_requests_in_flight_are_rows_of_their_own,
        a_repeated_request_gives_the_row_whose_answer_was_lost,
        a_lost_row_is_found_by_one_repeat,
        a_repeat_that_is_only_asked_for_adds_nothing,
        rows_that_a_server_left_open_are_lost,
        servers_have_rows_of_their_own,
        a_server_whose_lease_has_ended_is_taken_over,
        a_server_that_was_taken_over_adds_and_renews_nothing,
        a_lease_that_is_renewed_goes_on,
        a_server_that_ends_is_taken_over_at_once,
        a_process_that_has_ended_is_taken_over_at_once,
        rows_without_a_server_go_to_one_server,
        rows_that_the_log_has_lost_belong_to_no_server,
        a_request_that_is_open_elsewhere_is_in_doubt,
        a_repeat_belongs_to_the_server_that_it_came_to,
        a_request_is_new_once_the_earlier_one_was_answered,
        a_request_is_new_after_its_window,
        a_request_without_a_key_is_no_repeat_of_one_with,
        one_row_of_many_with_a_key_is_kept,
        rows_to_send_are_listed_in_order,
        pending_rows_are_found_by_kind_and_by_entity,
        old_visible_rows_go,
    )
}
