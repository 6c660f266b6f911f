"""Totals of held claims: equal to the sums, and kept, so that a check reads none of the claims."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.accounts.admissions import decide
from steelyard.accounts.claims import Claim
from steelyard.accounts.holdings import GrowingHoldings, Holdings
from steelyard.accounts.quota_settings import GLOBAL
from steelyard.accounts.quotas import Quotas, QuotaSettings, usage

NOW = datetime(2026, 1, 31, tzinfo=UTC)
CPU = "cpu"


class CountedQuantities(Mapping[str, str]):
    """Quantities of a claim; counts how often any such are read."""

    reads = 0

    def __init__(self, cpu: str) -> None:
        self._cpu = cpu

    def __getitem__(self, name: str) -> str:
        CountedQuantities.reads += 1
        return {CPU: self._cpu}[name]

    def __iter__(self) -> Iterator[str]:
        CountedQuantities.reads += 1
        return iter([CPU])

    def __len__(self) -> int:
        return 1


def claim(id: str, account: str = "a", cpu: str = "1") -> Claim:
    quantities = CountedQuantities(cpu)
    return Claim(id, "Model", account, "Created", b"{}", (1, 1), NOW, quantities=quantities)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["1", "100m", "-3", "1Gi", "?"])), max_size=20)
)
def test_totals_are_the_sums(held: list[tuple[str, str]]) -> None:
    claims = [claim(str(number), account, cpu) for number, (account, cpu) in enumerate(held)]
    holdings = Holdings(claims)
    assert list(holdings) == claims
    assert holdings.sum_used(GLOBAL, CPU) == usage(claims, CPU)
    for account in "ab":
        own = [one for one in claims if one.account == account]
        assert list(holdings.list_claims(account)) == own
        assert holdings.sum_used(f"accounts/{account}", CPU) == usage(own, CPU)
    assert holdings.sum_used(GLOBAL, "memory") == Decimal(0)


@pytest.mark.parametrize("count", [10, 1000])
def test_a_check_reads_none_of_what_is_held(count: int) -> None:
    quotas = Quotas(QuotaSettings(everything={CPU: str(count)}, account={CPU: str(count)}))
    holdings = Holdings(claim(f"h{number}", f"a{number % 7}") for number in range(count))
    CountedQuantities.reads = 0
    (short,) = quotas.shortages(claim("new"), holdings)
    assert short.message == f"Global quota exceeded: cpu: {count}/{count}"
    assert CountedQuantities.reads < 10, "the new one's own alone"


@pytest.mark.parametrize("count", [10, 1000])
def test_a_transaction_reads_what_is_held_once(count: int) -> None:
    """Each admission is one more; claims from before are not read again."""
    counted = [replace(claim(f"h{number}"), admitted_at=NOW) for number in range(count)]
    quotas = Quotas(QuotaSettings(everything={CPU: str(count + 5)}, account={}))
    new = {f"n{number}": claim(f"n{number}") for number in range(20)}
    growing = GrowingHoldings()

    def allowed(id: str, admitted: object) -> str | None:
        lacking = quotas.shortages(new[id], growing.among(admitted))  # type: ignore[arg-type]
        return lacking[0].message if lacking else None

    for _ in range(2):  # a transaction that is tried again begins with what is held then
        CountedQuantities.reads = 0
        admitted, refused = decide(list(new.values()), counted, NOW, allowed)
        assert (len(admitted), len(refused)) == (5, 15)
        assert CountedQuantities.reads < 3 * count + 200


def test_what_was_released_is_not_held() -> None:
    held, released = claim("h"), replace(claim("r"), released_at=NOW)
    assert list(GrowingHoldings().among([held, released])) == [held]
