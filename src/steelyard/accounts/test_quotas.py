"""Quotas: what counts, the messages, and that no order of admissions and releases goes over a limit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dyff.schema.platform import Evaluation as PublishedEvaluation
from dyff.schema.platform import InferenceSession as PublishedSession
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from steelyard.accounts.claims import Claim
from steelyard.accounts.holdings import Holdings
from steelyard.accounts.quotas import (
    ADMITTED,
    GLOBAL,
    Quotas,
    QuotaSettings,
    Rates,
    resource_allocation,
    usage,
)
from steelyard_schema.entities import AnyEntity, parse_entity
from steelyard_schema.quantity import amount

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
T4, L4, H100 = "nvidia.com/gpu-t4", "nvidia.com/gpu-l4", "nvidia.com/gpu-h100"
ANY, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def at(minute: float) -> datetime:
    return NOW + timedelta(minutes=minute)


def claim(
    account: str = "a", minute: float | None = None, released: float | None = None, **quantities: str
) -> Claim:
    return Claim(
        id=f"{account} {minute}",
        kind="Evaluation",
        account=account,
        status="Created",
        json=b"{}",
        position=(1, 1),
        created=NOW,
        quantities=quantities or {ADMITTED: "1"},
        admitted_at=None if minute is None else at(minute),
        released_at=None if released is None else at(released),
    )


def gpus(kind: str, count: int, account: str = "a") -> Claim:
    return replace(claim(account), quantities={kind: str(count), ADMITTED: "1"})


def said(quotas: Quotas, one: Claim, held: Sequence[Claim] = ()) -> list[str]:
    return [shortage.message for shortage in quotas.shortages(one, Holdings(held))]


def late(rates: Rates, one: Claim, admitted: Sequence[Claim], now: datetime = NOW) -> list[str]:
    return [shortage.message for shortage in rates.shortages(one, admitted, now)]


def rates(**fields: Any) -> Rates:
    return Rates(QuotaSettings.model_validate({"rates": [fields]}).rates)


def limits(**fields: Any) -> Quotas:
    return Quotas(QuotaSettings.model_validate({"everything": {}, "account": {}, **fields}))


@pytest.mark.parametrize("stored", ["-100", "much", "1e9999", ""])
def test_a_quantity_that_an_older_program_kept_lifts_no_quota_and_bars_nobody(stored: str) -> None:
    quotas = limits(everything={T4: "2"})
    held = [replace(claim(), quantities={T4: stored}), gpus(T4, 2)]
    assert usage(held, T4) == 2
    assert said(quotas, gpus(T4, 1), held) == ["Global quota exceeded: T4 GPUs: 2/2"]
    assert said(quotas, replace(claim(), quantities={T4: stored}), []) == []


# ---- what is said


@pytest.mark.parametrize(
    ("one", "held", "messages"),
    [
        (claim(), [claim()] * 49, []),
        (claim(), [claim()] * 50, ["Account quota exceeded: admitted workflows: 50/50"]),
        (claim(), [claim("b")] * 199, []),
        (claim(), [claim("b")] * 200, ["Global quota exceeded: admitted workflows: 200/200"]),
        (gpus(T4, 8), [gpus(T4, 8)], []),
        (gpus(T4, 8), [gpus(T4, 12)], ["Account quota exceeded: T4 GPUs: 12/16 (Evaluation a None has 12)"]),
        (gpus(L4, 8), [gpus(L4, 12, "b")], ["Global quota exceeded: L4 GPUs: 12/16"]),
        (gpus(T4, 1), [gpus(L4, 16)], []),
        (gpus(H100, 17), [], ["Account quota exceeded: H100 GPUs: 0/16, and this alone takes 17"]),
        (gpus(H100, 16, "b"), [gpus(H100, 16)] * 9, []),
        (gpus(ANY, 8), [gpus(ANY, 12)], ["Account quota exceeded: GPUs: 12/16 (Evaluation a None has 12)"]),
        (
            gpus(MIG, 1),
            [gpus(MIG, 16)],
            [f"Account quota exceeded: {MIG}: 16/16 (Evaluation a None has 16)"],
        ),
    ],
)
def test_the_default_quotas(one: Claim, held: list[Claim], messages: list[str]) -> None:
    assert said(Quotas(QuotaSettings()), one, held) == messages


def test_all_shortages_are_reported_the_accounts_own_first() -> None:
    quotas = limits(everything={"cpu": "2"}, account={"memory": "1Gi", "cpu": "1"})
    shortages = quotas.shortages(claim(cpu="3", memory="2Gi"), Holdings([claim(cpu="500m")]))
    assert [(shortage.principal, shortage.resource, shortage.flavor) for shortage in shortages] == [
        ("accounts/a", "cpu", "Total"),
        ("accounts/a", "memory", "Total"),
        (GLOBAL, "cpu", "Total"),
    ]
    assert (
        shortages[1].message
        == "Account quota exceeded: memory: 0/1073741824, and this alone takes 2147483648"
    )


def test_quantities_are_added_exactly() -> None:
    held = [claim(cpu="100m")] * 9
    assert said(limits(everything={"cpu": "1"}), claim(cpu="100m"), held) == []
    assert said(limits(everything={"cpu": "1"}), claim(cpu="101m"), held) == [
        "Global quota exceeded: cpu: 0.9/1"
    ]


@pytest.mark.parametrize(
    ("account", "resource", "fits"),
    [
        ("a", ADMITTED, True),
        ("big", T4, True),
        ("big", ADMITTED, False),  # only what is said of a single account is its own
        ("free", T4, True),
        ("b", T4, False),
    ],
)
def test_a_single_account_may_have_limits_of_its_own(account: str, resource: str, fits: bool) -> None:
    single = {"a": {ADMITTED: "5"}, "big": {"nvidia.com/*": "5"}, "free": {T4: "Unlimited"}}
    quotas = limits(account={ADMITTED: "4", "nvidia.com/gpu-*": "4"}, accounts=single)
    assert (said(quotas, replace(claim(account), quantities={resource: "5"})) == []) is fits


def test_the_longest_beginning_of_a_name_counts() -> None:
    quotas = limits(account={"*": "1", "nvidia.com/*": "2", "nvidia.com/gpu-*": "3", T4: "4"})
    for resource, limit in (("cpu", 1), ("nvidia.com/mig", 2), (L4, 3), (T4, 4)):
        assert said(quotas, replace(claim(), quantities={resource: str(limit)})) == []
        assert said(quotas, replace(claim(), quantities={resource: str(limit + 1)})) != []


# ---- rates


def test_a_rate_counts_what_was_admitted_within_the_last_while() -> None:
    some = rates(limit="2", duration="PT10M")
    before = [claim(minute=0, released=1), claim(minute=5), claim("b", minute=6)]
    assert some.since(at(9)) == at(-1)
    assert late(some, claim(), before, at(9)) == [
        "Account quota exceeded: admitted workflows: 2/2 within 0:10:00"
    ]
    assert late(some, claim(), before, at(11)) == []
    assert late(some, claim("b"), before, at(9)) == []


def test_a_rate_with_an_epoch_starts_again_each_period() -> None:
    some = rates(limit="1", duration="PT1H", epoch=NOW.isoformat(), principal=GLOBAL)
    [short] = some.shortages(claim(), [claim("b", minute=61, released=62)], at(119))
    assert (short.principal, short.flavor) == (GLOBAL, "Rate")
    assert late(some, claim(), [claim("b", minute=61)], at(120)) == []
    assert late(some, claim(), [claim("b", minute=59)], at(60)) == []
    assert some.since(at(-1)) == at(-60)


def test_a_rate_may_be_one_accounts_and_of_any_resource() -> None:
    some = rates(limit="4", duration=60, principal="accounts/a", resource=T4)
    assert late(some, gpus(T4, 5), ()) == [
        "Account quota exceeded: T4 GPUs: 0/4 within 0:01:00, and this alone takes 5"
    ]
    assert late(some, gpus(T4, 5, "b"), ()) == []
    assert late(some, claim(), ()) == []


def test_without_rates_nothing_past_matters() -> None:
    assert Rates().since(NOW) is None
    assert late(Rates(), claim(), [claim(minute=0)] * 1000) == []


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(0, 9)), max_size=20),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_no_order_of_admissions_goes_over(events: list[tuple[str, int, int]], own: int, all_: int) -> None:
    """Admitted when there is room, released some minutes later: at no minute is more held, or admitted, than may be."""
    quotas = limits(account={"cpu": str(own)}, everything={"cpu": str(all_)})
    rate = rates(limit="3", duration="PT5M", principal=GLOBAL, resource="cpu")
    claims: list[Claim] = []
    for minute, (account, cpu, lasts) in enumerate(events):
        wanted = claim(account, minute, minute + lasts, cpu=str(cpu))
        if not quotas.shortages(wanted, Holdings(held_at(claims, minute))) and not late(
            rate, wanted, claims, at(minute)
        ):
            claims.append(wanted)
    for minute in range(len(events)):
        held = held_at(claims, minute)
        window = [
            other
            for other in claims
            if other.admitted_at and at(minute - 5) < other.admitted_at <= at(minute)
        ]
        assert usage(held, "cpu") <= all_
        assert all(
            usage([holder for holder in held if holder.account == name], "cpu") <= own for name in "ab"
        )
        assert usage(window, "cpu") <= 3


def held_at(claims: Sequence[Claim], minute: int) -> list[Claim]:
    now = at(minute)
    begun = [claim for claim in claims if claim.admitted_at and claim.admitted_at <= now]
    return [ended for ended in begun if ended.released_at and ended.released_at > now]


# ---- settings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"account": {"cpu": "lots"}}, "'lots' is not a quantity"),
        ({"everything": {"cpu": "-1"}}, "should not be negative"),
        ({"accounts": {"a": {"cpu": "1.5GiB"}}}, "is not a quantity"),
        ({"rates": [{"limit": "Unlimited", "duration": 60}]}, "is not a quantity"),
        ({"rates": [{"limit": "1", "duration": 0}]}, "should be more than nothing"),
        ({"rates": [{"limit": "1", "duration": "P367D"}]}, "should be at most 366 days"),
        (
            {"rates": [{"limit": "1", "duration": 60, "principal": "a"}]},
            "should be __global__, accounts/<account>",
        ),
        ({"global": {}}, "Extra inputs"),
    ],
)
def test_a_setting_that_is_none_is_named(given: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        QuotaSettings.model_validate(given)


# ---- what an entity counts as

RUNNER = {
    "kind": "vllm",
    "image": {"host": "r.example", "name": "a/b", "digest": "sha256:" + "0" * 64},
    "resources": {"cpu": "1"},
}
BASE = {"account": "a", "status": "Created", "creationTime": NOW.isoformat(), "schemaVersion": "0.1"}
SCHEMA = {"arrowSchema": "AAAA"}


def accelerator(count: int, *types: str) -> dict[str, Any]:
    return {"kind": "GPU", "gpu": {"hardwareTypes": list(types), "count": count}}


def session(**fields: Any) -> dict[str, Any]:
    runner = RUNNER | fields.pop("runner", {})
    service = {"id": "1" * 32, "name": "s", "account": "a", "runner": runner}
    service["interface"] = {"endpoint": "x", "outputSchema": SCHEMA}
    return {"inferenceService": service, **fields}


def entity(kind: str, **fields: Any) -> AnyEntity:
    return parse_entity({**BASE, "kind": kind, "id": "0" * 32, **fields})


sessions = st.builds(
    lambda replicas, nodes, given: session(replicas=replicas, runner={"nodes": nodes}, **given),
    st.integers(1, 4),
    st.integers(1, 3),
    st.one_of(
        st.just({}),
        st.builds(
            lambda count, types: {"accelerator": accelerator(count, *types)},
            st.integers(1, 8),
            st.lists(st.sampled_from([T4, L4, H100]), min_size=1, max_size=2, unique=True),
        ),
    ),
)


@settings(deadline=None)
@given(sessions, st.booleans())
def test_workflows_count_as_the_published_schema_reckons(given: dict[str, Any], referenced: bool) -> None:
    reference = {"inferenceSessionReference": "2" * 32} if referenced else {}
    evaluation = entity("Evaluation", dataset="3" * 32, inferenceSession=given, **reference)
    alone = entity("InferenceSession", **given)
    for one, published in ((evaluation, PublishedEvaluation), (alone, PublishedSession)):
        theirs = published.model_validate(one.dump()).resource_allocation()
        assert theirs is not None
        assert resource_allocation(one) == theirs.quantities


@pytest.mark.parametrize(
    ("one", "quantities"),
    [
        (entity("Audit", auditProcedure="p", inferenceService="s"), {"cpu": "2", "memory": "2Gi", ADMITTED: "1"}),
        (entity("AuditProcedure", name="p"), {}),
        (entity("Module", name="m", artifacts=[{"path": "a.py", "digest": {}}]), {}),
        (
            entity("Report", rubric="r", evaluation="e", dataset="d", inferenceService="s"),
            {"cpu": "2", "memory": "2Gi", ADMITTED: "1"},
        ),
        (
            entity("InferenceSession", **session(replicas=2, runner={"accelerator": accelerator(2, T4), "nodes": 3})),
            {T4: "12", ADMITTED: "1"},
        ),
    ],
    ids=["audit", "procedure", "module", "report", "the runner's own accelerator"],
)  # fmt: skip
def test_an_entity_counts_as_its_kind(one: AnyEntity, quantities: Mapping[str, str]) -> None:
    assert resource_allocation(one) == quantities
    assert all(amount(quantity) > 0 for quantity in quantities.values())
