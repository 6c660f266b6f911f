"""Rates of admission, as the scheduler keeps to them."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from steelyard.accounts.claims import Claim, Claims
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.quotas import ADMITTED, GLOBAL, Quotas, QuotaSettings, Rates
from steelyard.services.orchestrator.admission import Limits
from steelyard.services.orchestrator.exemptions import ExemptingRates
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.observed import ObservedClaims
from steelyard.services.orchestrator.rules import make_rules
from steelyard.services.orchestrator.scheduler import Scheduler
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.simulation.entities import START, make_model
from steelyard_schema.quota import Quota, quota_id

SETTINGS = QuotaSettings.model_validate({"rates": [{"limit": "2", "duration": "PT10M"}]})


def claim(id: str, **fields: object) -> Claim:
    made = claim_of(make_model(id))
    return replace(made, quantities={ADMITTED: "1"}, **fields)  # type: ignore[arg-type]


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


@dataclass
class SchedulerHarness:
    claims: Claims
    limits: Limits
    observed: ObservedClaims
    scheduler: Scheduler
    leader: int

    async def see(self, *given: Claim) -> None:
        await self.claims.apply([(claim.id, claim) for claim in given], 1, {}, self.leader)
        for claim in given:
            self.observed.update(claim.id, await self.claims.get(claim.id))

    async def finish(self, id: str, minute: float) -> None:
        current = await self.claims.get(id)
        assert current is not None
        over = replace(current, status="Ready", terminal_at=at(minute), position=(1, current.position[1] + 1))
        await self.see(over)
        await self.claims.release(id, at(minute), self.leader)
        self.observed.release(id)

    async def turn(self, minute: float) -> tuple[list[str], list[str | None]]:
        """Return who was admitted, and the messages of the others."""
        admitted, reports = await self.scheduler.schedule(at(minute), self.leader)
        return sorted(admitted), [status.message for _, status in reports]

    def elect(self) -> None:
        """The one who leads from now on remembers nothing."""
        self.observed = ObservedClaims(0)
        self.scheduler = Scheduler(
            self.claims, self.observed, self.limits, 600, OrchestratorMetrics(), Rates(SETTINGS.rates)
        )


@pytest.fixture
async def harness() -> AsyncIterator[SchedulerHarness]:
    accounts_database = await open_accounts_database("memory:")
    limits, observed = Quotas(QuotaSettings(everything={ADMITTED: "3"})), ObservedClaims(0)
    scheduler = Scheduler(
        accounts_database.claims, observed, limits, 600, OrchestratorMetrics(), Rates(SETTINGS.rates)
    )
    yield SchedulerHarness(
        accounts_database.claims,
        limits,
        observed,
        scheduler,
        await accounts_database.claims.lead("one", START),
    )
    await accounts_database.close()


TOO_FAST = "Account quota exceeded: admitted workflows: 2/2 within 0:10:00"


async def test_what_is_too_fast_waits_for_the_window_to_pass(harness: SchedulerHarness) -> None:
    await harness.see(*(claim(f"m{n}") for n in range(3)))
    assert await harness.turn(0) == (["m0", "m1"], [TOO_FAST])
    for id in ("m0", "m1"):
        await harness.finish(id, 1)
    assert (await harness.turn(9))[0] == []
    assert await harness.turn(11) == (["m2"], [])


async def test_a_new_leader_knows_what_was_admitted_before(harness: SchedulerHarness) -> None:
    await harness.see(*(claim(f"m{n}") for n in range(2)))
    await harness.turn(0)
    for id in ("m0", "m1"):
        await harness.finish(id, 1)
    harness.elect()
    await harness.see(claim("m2"))
    assert await harness.turn(5) == ([], [TOO_FAST])


async def test_who_is_too_fast_takes_no_room_from_others(harness: SchedulerHarness) -> None:
    await harness.see(*(claim(f"m{n}") for n in range(2)))
    await harness.turn(0)
    await harness.see(claim("m2"), claim("m3"), claim("other", account="other", created=at(3)))
    assert (await harness.turn(4))[0] == ["other"]


@pytest.mark.parametrize(("flavor", "exempt"), [("Rate", True), ("*", True), ("Total", False)])
def test_a_workflow_may_ignore_rates(flavor: str, exempt: bool) -> None:
    selector = {"principal": "accounts/acme", "resource": ADMITTED, "flavor": flavor}
    content = json.dumps({"securityContext": {"ignoreQuotas": [selector]}}).encode()
    one = claim("m2", account="acme", json=content)
    before = [claim(f"m{n}", account="acme", admitted_at=START) for n in range(2)]
    assert (not ExemptingRates(Rates(SETTINGS.rates)).shortages(one, before, at(1))) is exempt


async def test_a_burst_reads_what_was_created_once(
    harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads for each one would make a burst take a time that grows with its square."""
    many = {ADMITTED: "2000"}
    resource = "models.dyff.io/created"
    own = {
        "id": quota_id(GLOBAL, resource, "Rate"),
        "creationTime": START,
        "status": "Ready",
        "principal": GLOBAL,
        "flavor": "Rate",
    }
    quota = Quota.parse({**own, "resource": resource, "limit": "140", "duration": "PT10M"})
    harness.scheduler.revise(make_rules(QuotaSettings(everything=many, account=many), [quota]))
    reads = 0
    read = harness.claims.list_created

    async def counted(*arguments: Any) -> Sequence[Claim]:
        nonlocal reads
        reads += 1
        return await read(*arguments)

    monkeypatch.setattr(harness.claims, "list_created", counted)
    said = "Global quota exceeded: models created: 140/140 within 0:10:00"
    for burst, refused in enumerate((0, 100)):
        names = [f"burst-{burst}-{number:04}" for number in range(120)]
        await harness.see(*(claim(name, created=at(1 + burst)) for name in names))
        admitted, messages = await harness.turn(2 + burst)
        assert reads == burst + 1
        assert messages == [said] * refused
        assert admitted == names[: 120 - refused], "the first ones come first"


async def test_a_burst_is_admitted_in_a_few_transactions(
    harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction for each one would read all that is held as many times."""
    harness.scheduler.revise(make_rules(QuotaSettings(everything={ADMITTED: "47"}), []))
    await harness.claims.apply([("unseen", claim("unseen"))], 1, {}, harness.leader)
    await harness.claims.admit(["unseen"], at(0), lambda id, counted: None, harness.leader)
    admit, sizes = harness.claims.admit, list[int]()

    async def counted(ids: Sequence[str], *arguments: Any) -> Mapping[str, str]:
        sizes.append(len(ids))
        return await admit(ids, *arguments)

    monkeypatch.setattr(harness.claims, "admit", counted)
    names = [f"m{number:02}" for number in range(50)]
    await harness.see(*(claim(name, created=at(number / 100)) for number, name in enumerate(names)))
    admitted, messages = await harness.turn(1)
    assert sizes == [20, 20, 7], "47 of 50 may go, by what was observed"
    assert admitted == names[:46], "one more is held"
    full = "Global quota exceeded: admitted workflows: 47/47"
    assert sorted(map(str, messages)) == [full, *(f"{full} (position {number})" for number in (1, 2, 3))]
    assert set(harness.observed.held) == set(admitted)
    assert set(harness.observed.waiting) == set(names[46:])
