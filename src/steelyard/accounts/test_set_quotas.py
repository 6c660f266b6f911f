"""Quotas that requests set, in place of those of the settings."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard.accounts.claims import Claim
from steelyard.accounts.creations import Creations
from steelyard.accounts.holdings import Holdings
from steelyard.accounts.quota_settings import ADMITTED, GLOBAL
from steelyard.accounts.quotas import CreationRates, Quotas, QuotaSettings, Rates
from steelyard.accounts.set_quotas import SetQuotas, set_quotas
from steelyard_schema.quota import Quota, quota_id

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SETTINGS = QuotaSettings.model_validate({"everything": {"cpu": "2"}, "account": {"cpu": "1"}})


def at(minute: float) -> datetime:
    return NOW + timedelta(minutes=minute)


def quota(principal: str, resource: str, limit: str, flavor: str = "Total", **fields: Any) -> Quota:
    own = {"id": quota_id(principal, resource, flavor), "status": "Ready", "creationTime": NOW}
    return Quota.parse(
        {"principal": principal, "resource": resource, "flavor": flavor, "limit": limit, **own, **fields}
    )


def in_force(*quotas: Quota) -> SetQuotas:
    return set_quotas(quotas)


ONE = {ADMITTED: "1"}


def claim(
    id: str = "e0", account: str = "a", minute: float = 0, quantities: Mapping[str, str] | None = None
) -> Claim:
    return Claim(
        id=id, kind="Evaluation", account=account, status="Created", json=b"{}", position=(1, 1),
        created=at(minute), quantities=quantities or {"cpu": "1"}, admitted_at=at(minute),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("quotas", "held", "said"),
    [
        ((), 1, ["Account quota exceeded: cpu: 1/1"]),
        ((quota("accounts/a", "cpu", "2"),), 1, []),
        ((quota("accounts/a", "cpu", "2"),), 2, [f"{all_} quota exceeded: cpu: 2/2" for all_ in ("Account", "Global")]),
        ((quota("accounts/b", "cpu", "2"),), 1, ["Account quota exceeded: cpu: 1/1"]),
        ((quota("accounts/a", "cpu", "Unlimited"), quota(GLOBAL, "cpu", "3")), 2, []),
        ((quota("accounts/a", "cpu", "Unlimited"), quota(GLOBAL, "cpu", "3")), 3, ["Global quota exceeded: cpu: 3/3"]),
        ((quota("accounts/a", "cpu", "9", status="Deleted"),), 1, ["Account quota exceeded: cpu: 1/1"]),
        ((quota("accounts/a", "cpu", "0"),), 0, ["Account quota exceeded: cpu: 0/0, and this alone takes 1"]),
        # A rate over no time is a limit on what is held at once; of two limits the lower one counts.
        (
            (quota("accounts/a", "cpu", "2", "Rate", duration="PT0S"), quota("accounts/a", "cpu", "1")),
            1,
            ["Account quota exceeded: cpu: 1/1"],
        ),
    ],
)  # fmt: skip
def test_a_quota_that_is_set_counts_in_place_of_the_setting(
    quotas: tuple[Quota, ...], held: int, said: list[str]
) -> None:
    limits = Quotas(SETTINGS, in_force(*quotas))
    shortages = limits.shortages(claim(), Holdings(claim(f"h{number}") for number in range(held)))
    assert [shortage.message for shortage in shortages] == said


def test_a_rate_that_is_set_counts_in_place_of_the_settings_for_this_account_alone() -> None:
    settings = QuotaSettings.model_validate({"rates": [{"limit": "1", "duration": "PT10M"}]}).rates
    rates = Rates(settings, in_force(quota("accounts/a", ADMITTED, "2", "Rate", duration="PT1H")))
    before = [claim(f"{account}{n}", account, quantities=ONE) for account in "ab" for n in range(2)]
    for account, said in (("a", "2/2 within 1:00:00"), ("b", "2/1 within 0:10:00")):
        (short,) = rates.shortages(claim("x", account, quantities=ONE), before, at(5))
        assert short.message == f"Account quota exceeded: admitted workflows: {said}"
    assert rates.since(at(60)) == at(0)
    freed = Rates(settings, in_force(quota("accounts/a", ADMITTED, "Unlimited", "Rate", duration="PT1H")))
    assert freed.shortages(claim("x", quantities=ONE), before, at(5)) == []


def test_a_rate_of_creations_counts_what_was_created_before_and_nothing_older_than_itself() -> None:
    resource = "evaluations.dyff.io/created"
    rate = quota("accounts/a", resource, "2", "Rate", duration="PT10M", lastTransitionTime=at(0))
    rates = CreationRates(in_force(rate))
    created = [claim(f"e{minute}", minute=minute) for minute in (-1, 1, 2, 3)]
    counted = Creations(created)
    (short,) = rates.shortages(created[3], counted)
    assert short.message == "Account quota exceeded: evaluations created: 3/2 within 0:10:00"
    assert (short.principal, short.resource, short.flavor) == ("accounts/a", resource, "Rate")
    assert rates.shortages(created[1], counted) == []
    assert rates.window(created[0]) is None, "it was created before the quota was set"
    assert rates.window(created[1]) == (frozenset({"Evaluation"}), at(-9))
    assert rates.window(claim("other", "b", 2)) is None
    assert rates.window(replace(created[1], kind="Report")) is None
    later = claim("later", minute=12.5)
    assert rates.shortages(later, counted) == [], "two of the four have left the window"
    of_all = CreationRates(in_force(quota(GLOBAL, "workflows.dyff.io/created", "3", "Rate", duration="PT1H")))
    assert of_all.shortages(replace(later, kind="Report", account="b"), counted) != []
