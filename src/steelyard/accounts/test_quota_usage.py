"""Tests of the usage that quotas show."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard.accounts.claims import Claim
from steelyard.accounts.creations import Creations
from steelyard.accounts.quota_settings import ADMITTED, GLOBAL
from steelyard.accounts.quota_usage import QuotaUsage, admissions_since, creations_since
from steelyard_schema.quantity import quantity
from steelyard_schema.quota import Quota, quota_id


def at(minute: float) -> datetime:
    return datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(minutes=minute)


EPOCH, NOW = at(8), at(10)


def quota(
    principal: str, resource: str, minutes: float | None = None, epoch: datetime | None = None
) -> Quota:
    flavor = "Total" if minutes is None else "Rate"
    id = quota_id(principal, resource, flavor)
    duration = None if minutes is None else timedelta(minutes=minutes)
    fields = {"id": id, "principal": principal, "resource": resource, "flavor": flavor, "limit": "9"}
    return Quota.parse(
        fields | {"duration": duration, "epoch": epoch, "creationTime": at(0), "status": "Ready"}
    )


def admitted(
    id: str, minute: float, account: str = "acme", released: float | None = None, **more: str
) -> Claim:
    quantities = {ADMITTED: "1", "cpu": "1500m", **more}
    ended = None if released is None else at(released)
    return Claim(
        id=id,
        kind="Evaluation",
        account=account,
        status="Admitted",
        json=b"",
        position=(1, 0),
        created=at(minute),
        quantities=quantities,
        admitted_at=at(minute),
        released_at=ended,
    )


CLAIMS = (
    admitted("over", 1, released=2),
    admitted("early", 2),
    admitted("late", 9, gpu="4"),
    admitted("brief", 9, released=9.5),
    admitted("others", 8, account="other"),
)
ACME = "accounts/acme"
CASES = {
    "held by an account": (quota(ACME, ADMITTED), "2"),
    "held by all": (quota(GLOBAL, ADMITTED), "3"),
    "a sum of fractions": (quota(ACME, "cpu"), "3"),
    "what one alone has": (quota(GLOBAL, "gpu"), "4"),
    "of somebody who holds nothing": (quota("accounts/nobody", ADMITTED), "0"),
    "admitted within a time, released or not": (quota(ACME, ADMITTED, 2), "2"),
    "admitted by all within a time": (quota(GLOBAL, ADMITTED, 9), "5"),
    "admitted since the cycle began": (quota(GLOBAL, ADMITTED, 4, EPOCH), "3"),
    "no time at all is what is held": (quota(ACME, ADMITTED, 0), "2"),
    "created by an account": (quota(ACME, "evaluations.dyff.io/created", 5), "2"),
    "created of every kind, by all": (quota(GLOBAL, "workflows.dyff.io/created", 60), "5"),
    "created of another kind": (quota(GLOBAL, "models.dyff.io/created", 60), "0"),
}


@pytest.mark.parametrize(("asked", "used"), CASES.values(), ids=CASES)
def test_usage_is_what_counts_for_the_quota(asked: Quota, used: str) -> None:
    assert quantity(QuotaUsage(CLAIMS, Creations(CLAIMS), NOW).amount(asked)) == used


def test_as_much_is_read_as_the_longest_window_needs() -> None:
    held, short, long = quota(ACME, "cpu"), quota(ACME, ADMITTED, 2), quota(GLOBAL, ADMITTED, 7)
    made, all_made = (quota(GLOBAL, f"{plural}.dyff.io/created", 5) for plural in ("models", "workflows"))
    assert admissions_since([held, made], NOW) is None is creations_since([held, short], NOW)
    assert admissions_since([held, short, long, made], NOW) == at(3)
    assert creations_since([held, made], NOW) == (frozenset({"Model"}), at(5))
    window = creations_since([made, all_made], NOW)
    assert window is not None
    assert window[0] > {"Model", "Evaluation"}
