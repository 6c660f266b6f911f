"""Behaviour of the outbox in every accounts database. Engines run each of `CASES`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from steelyard.accounts.database import Outbox, OutboxRow

Case = Callable[[Outbox], Awaitable[None]]
NOW = datetime(2026, 1, 31, 12, 0, 0, 123457, tzinfo=UTC)


def row(
    command: str,
    *,
    request: str = "",
    key: str | None = None,
    seconds: float = 0,
    account: str = "a",
    kind: str = "Dataset",
    entity: str = "",
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
    )


def commands(rows: Sequence[OutboxRow]) -> str:
    return " ".join(row.command for row in rows)


async def a_row_is_kept_as_it_was_given(outbox: Outbox) -> None:
    given = row("c1", key="k")
    assert await outbox.add(given) == given
    assert list(await outbox.pending()) == [given] == list(await outbox.unsent())


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


async def a_key_gives_the_same_row_for_ever(outbox: Outbox) -> None:
    first = await outbox.add(row("c1", key="k"), [row("c2")])
    await outbox.sent("c1", (3, 14))
    await outbox.answered(["c1"])
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
    await outbox.lost(["c1", "unknown"])
    assert (await outbox.add(row("c3", request="r", seconds=59, account="b"))).command == "c3"
    assert (await outbox.add(row("c4", request="other"))).command == "c4"
    assert await outbox.add(row("c2", request="r", seconds=59)) == row("c1", request="r")


async def a_lost_row_is_found_by_one_repeat(outbox: Outbox) -> None:
    for number in range(3):
        await outbox.add(row(f"c{number}", request="r"))
    await outbox.lost(["c2", "c0"])
    repeats = [await outbox.add(row(f"d{number}", request="r", seconds=1)) for number in range(3)]
    assert commands(repeats) == "c0 c2 d2"
    await outbox.lost(["c0"])
    assert (await outbox.add(row("e0", request="r", seconds=2))).command == "c0"


async def what_a_process_left_open_is_lost(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r"))
    await outbox.add(row("c2", request="answered"))
    await outbox.answered(["c2"])
    await outbox.lost()
    assert (await outbox.add(row("d1", request="r", seconds=1))).command == "c1"
    assert (await outbox.add(row("d2", request="answered", seconds=1))).command == "d2"


async def a_request_is_new_once_the_earlier_one_was_answered(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r"))
    await outbox.answered(["c1", "unknown"])
    await outbox.lost(["c1"])
    assert (await outbox.add(row("c2", request="r", seconds=1))).command == "c2"


async def a_request_is_new_after_its_window(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r"))
    await outbox.lost(["c1"])
    assert (await outbox.add(row("c2", request="r", seconds=61))).command == "c2"
    assert (await outbox.add(row("c3", request="r", seconds=66), window_seconds=1)).command == "c3"


async def a_request_without_a_key_is_no_repeat_of_one_with(outbox: Outbox) -> None:
    await outbox.add(row("c1", request="r", key="k"))
    await outbox.lost(["c1"])
    assert (await outbox.add(row("c2", request="r"))).command == "c2"


async def of_many_with_one_key_at_once_one_is_kept(outbox: Outbox) -> None:
    added = await asyncio.gather(*(outbox.add(row(f"c{n}", key="k")) for n in range(20)))
    assert len({stored.command for stored in added}) == 1
    assert len(await outbox.pending()) == 1


async def what_is_unsent_is_listed_in_order(outbox: Outbox) -> None:
    for n in range(4):
        await outbox.add(row(f"c{n}"))
    await outbox.sent("c1", (0, 5))
    await outbox.visible(["c2"])  # rejected, or shown after all: nobody sends it again
    assert commands(await outbox.unsent()) == "c0 c3"
    assert [pending.position for pending in await outbox.pending()] == [None, (0, 5), None]


async def what_is_pending_is_found_by_kind_and_by_entity(outbox: Outbox) -> None:
    await outbox.add(row("c1", entity="e1"))
    await outbox.add(row("c2", kind="Model", entity="e2"))
    await outbox.add(row("c3", entity="e1"))
    assert commands(await outbox.pending("Dataset")) == "c1 c3"
    assert commands(await outbox.pending("Dataset", "e1")) == "c1 c3"
    assert commands(await outbox.pending(entity="e2")) == "c2"
    assert commands(await outbox.pending("Dataset", "e2")) == ""
    await outbox.visible(["c1"])
    assert commands(await outbox.pending(entity="e1")) == "c3"


async def what_is_visible_and_old_goes(outbox: Outbox) -> None:
    await outbox.add(row("old", key="k"))
    await outbox.add(row("unseen"))
    await outbox.add(row("new", seconds=100))
    await outbox.visible(["old", "new"])
    assert await outbox.expire(NOW) == 0
    assert await outbox.expire(NOW + timedelta(seconds=50)) == 1
    assert commands(await outbox.pending()) == "unseen"
    assert await outbox.expired_request("a", "k") == row("old").request
    assert await outbox.expired_request("b", "k") is None
    assert (await outbox.add(row("again", key="k", request="another", seconds=100))).command == "again"
    await outbox.visible(["again"])
    assert await outbox.expire(NOW + timedelta(seconds=200)) == 2
    assert await outbox.expired_request("a", "k") == row("old").request, (
        "the first one's, whatever came later"
    )


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        a_row_is_kept_as_it_was_given,
        rows_of_one_request_are_kept_together,
        rows_of_one_request_are_kept_all_or_none,
        a_key_gives_the_same_row_for_ever,
        a_key_is_its_accounts_own,
        equal_requests_in_flight_are_rows_of_their_own,
        a_repeated_request_gives_the_row_whose_answer_was_lost,
        a_lost_row_is_found_by_one_repeat,
        what_a_process_left_open_is_lost,
        a_request_is_new_once_the_earlier_one_was_answered,
        a_request_is_new_after_its_window,
        a_request_without_a_key_is_no_repeat_of_one_with,
        of_many_with_one_key_at_once_one_is_kept,
        what_is_unsent_is_listed_in_order,
        what_is_pending_is_found_by_kind_and_by_entity,
        what_is_visible_and_old_goes,
    )
}
