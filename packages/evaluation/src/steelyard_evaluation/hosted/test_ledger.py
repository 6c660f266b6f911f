"""The spending ledger: what counts against a cap, on which day, and when a call is refused."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from steelyard_evaluation.hosted.ledger import (
    CallTotals,
    Caps,
    Hold,
    Ledger,
    Refusal,
    Tokens,
    UnrecordedSpending,
    amount_text,
    refusal,
)
from steelyard_schema.hosted_model import HostedModel

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRICED = {"input_price": Decimal(1), "output_price": Decimal(10)}


def caps(**limits: Any) -> Caps:
    return Caps(HostedModel(base_url="https://models.example/v1", model="m", **limits))


def ledger(spent: int = 0, **holds: Hold) -> Ledger:
    made = CallTotals(1, Tokens(output=spent))
    return Ledger(NOON.date(), 1, made, made, holds)


def held(tokens: int, ago: timedelta = timedelta(0)) -> Hold:
    return Hold(Tokens(output=tokens), NOON - ago)


LONG_AGO = timedelta(hours=1)


@pytest.mark.parametrize(
    ("before", "limits", "expected"),
    [
        (ledger(90), {"tokens_total": 100}, None),
        (ledger(91), {"tokens_total": 100}, True),
        (ledger(80, other=held(11)), {"tokens_total": 100}, False),
        (ledger(80, other=held(11, LONG_AGO)), {"tokens_total": 100}, True),
        (ledger(80, me=held(11)), {"tokens_total": 100}, None),
        (ledger(91), {"tokens_per_day": 100}, True),
        (ledger(91), {"tokens_per_day": 101}, None),
        (ledger(90), {"cost_total": Decimal("0.001"), **PRICED}, None),
        (ledger(91), {"cost_total": Decimal("0.001"), **PRICED}, True),
        (ledger(91), {"cost_per_day": Decimal("0.001"), **PRICED}, True),
        (ledger(10**9), {}, None),
    ],
    ids=[
        "up to the cap", "beyond the cap", "another's calls may use it", "a killed writer has used it",
        "what this writer held is given anew", "beyond the cap of a day", "up to the cap of a day", "up to the money",
        "beyond the money", "beyond the money of a day", "without caps",
    ],
)  # fmt: skip
def test_a_call_of_ten_tokens(before: Ledger, limits: dict[str, Any], expected: bool | None) -> None:
    """Refused for good, for now, or not at all."""
    own = UnrecordedSpending(CallTotals(), Tokens())
    refused = refusal(before, "me", own, Tokens(output=10), caps(**limits), NOON)
    assert (refused and refused.final) == expected


def test_what_this_writer_has_not_written_yet_counts() -> None:
    own = UnrecordedSpending(CallTotals(2, Tokens(output=50)), Tokens(output=41))
    limits = caps(tokens_total=100)
    assert refusal(ledger(), "me", own, Tokens(output=10), limits, NOON) == Refusal(
        "calls in flight may use up the cap of 100 tokens in total", final=False
    )
    assert refusal(ledger(), "me", own, Tokens(output=9), limits, NOON) is None


def test_the_message_says_what_is_spent_and_whether_a_smaller_call_would_fit() -> None:
    before, own = ledger(95), UnrecordedSpending(CallTotals(), Tokens())
    money = caps(cost_total=Decimal("0.001"), **PRICED)
    refused = refusal(before, "me", own, Tokens(output=10), money, NOON)
    assert refused
    assert refused.message == (
        "the cap of 0.001 USD in total leaves no room for this call: 0.00095 USD are spent, and this call may use "
        "0.0001 USD"
    )
    refused = refusal(before, "me", own, Tokens(output=10), caps(tokens_per_day=100), NOON)
    assert refused
    assert refused.message == (
        "the cap of 100 tokens per day (UTC) leaves no room for this call: 95 tokens are spent, and this call may use "
        "10 tokens"
    )
    refused = refusal(ledger(99), "me", own, Tokens(output=10), caps(tokens_per_day=100), NOON)
    assert refused
    assert refused.message == (
        "the cap of 100 tokens per day (UTC) is reached: 99 tokens are spent, and this call may use 10 tokens"
    )


def test_a_new_day_begins_at_midnight_and_never_ends_early() -> None:
    before = ledger(95)
    next_day = NOON + timedelta(hours=12)
    assert before.at(next_day - timedelta(seconds=1)).today.tokens.total == 95
    after = before.after("me", CallTotals(1, Tokens(output=3)), None, next_day)
    assert (after.day, after.today.tokens.total, after.total.tokens.total) == (date(2026, 3, 2), 3, 98)
    behind = after.after("me", CallTotals(1, Tokens(output=1)), None, NOON)
    assert (behind.day, behind.today.tokens.total) == (date(2026, 3, 2), 4)


def test_a_call_over_midnight_is_held_on_both_days_and_a_killed_one_on_its_own() -> None:
    midnight = NOON + timedelta(hours=12)
    before = ledger(0, other=Hold(Tokens(output=7), midnight - timedelta(seconds=5)))
    just_after, much_later = midnight + timedelta(seconds=5), midnight + timedelta(hours=1)
    assert [tokens.total for tokens in before.sum_committed(just_after)] == [7, 7]
    assert [tokens.total for tokens in before.sum_committed(much_later)] == [0, 7]


def test_an_entry_stays_small_however_many_writers_were_killed() -> None:
    made, count = ledger(), 300
    for number in range(count):
        at = NOON + timedelta(days=number)
        made = made.after(f"writer-{number}", CallTotals(), Tokens(output=1), at)
    assert len(made.holds) < 110
    assert made.sum_committed(NOON + timedelta(days=count))[1].total == count


def test_writers_that_make_calls_are_counted() -> None:
    assert ledger(0, a=held(0), b=held(5), c=held(5, LONG_AGO)).active(NOON) == 2


def test_money_is_exact() -> None:
    limits = caps(input_price=Decimal("0.000000000001"), output_price=Decimal(999_999_999))
    tokens = Tokens(input=1, output=10**15)
    cost = limits.cost(tokens)
    assert cost is not None
    assert cost * 1_000_000 == Decimal(999_999_999) * 10**15 + Decimal("0.000000000001")


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "0.00"), ("1.5", "1.50"), ("0.000125", "0.000125"), ("12", "12.00"), ("1E+2", "100.00")],
)
def test_amounts_have_the_digits_that_are_of_use(amount: str, text: str) -> None:
    assert amount_text(Decimal(amount)) == text
