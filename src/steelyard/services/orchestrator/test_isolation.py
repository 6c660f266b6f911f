"""One entity that the orchestrator cannot work on stops no other: in what it reads, compares, decides and makes."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from steelyard.accounts.quotas import ADMITTED, Quotas, QuotaSettings
from steelyard.broker.log import STATE, Message
from steelyard.broker.quarantine.administration import QuarantineEntry, end_quarantine, list_entries
from steelyard.broker.quarantine.marks import mark
from steelyard.services.orchestrator.admission import AdmissionContext, admissions
from steelyard.services.orchestrator.exemptions import ExemptingLimits
from steelyard.services.orchestrator.isolation import run_isolated
from steelyard.services.orchestrator.observed import ObservedClaims
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.orchestrator.waiting import Admit, Wait
from steelyard.services.simulation.entities import START, make_model, make_report
from steelyard.services.simulation.platform import PlatformHarness, has_status, open_harness, until
from steelyard_common.errors import EngineError

GOOD, BAD = make_model("m1"), make_model("m2")


@pytest.fixture
async def harness() -> AsyncIterator[PlatformHarness]:
    async with open_harness(Quotas(QuotaSettings())) as harness:
        yield harness


async def held(harness: PlatformHarness, *expected: tuple[str, str]) -> list[QuarantineEntry]:
    async def holds() -> bool:
        return sorted((entity.key, entity.consumer) for entity in await list_entries(harness.log)) == sorted(
            expected
        )

    await until(holds)
    return await list_entries(harness.log)


async def test_a_state_that_it_cannot_read_is_left_out(harness: PlatformHarness) -> None:
    harness.start()
    await harness.create(BAD)
    await has_status(harness, "m2", "Admitted")
    state = await harness.log.latest(STATE, "m2")
    assert state
    broken = (state.value or b"").replace(b'"creationTime":"2026', b'"creationTime":"soon')
    await harness.log.publish([Message(STATE, "x1", broken, state.headers)])
    await harness.create(GOOD)
    await has_status(harness, "m1", "Admitted")
    (entry,) = await held(harness, ("x1", "orchestrator"))
    assert "creationTime" in entry.reason
    await end_quarantine(harness.log, [entry], dropping=True)
    await held(harness)


async def test_a_check_that_keeps_failing_puts_its_entity_aside_and_goes_on_trying(
    harness: PlatformHarness,
) -> None:
    create = harness.cluster.create

    async def breaks(*args: object, **more: object) -> object:
        if BAD.id in str(args) and broken:
            raise RecursionError("maximum recursion depth exceeded")
        return await create(*args, **more)  # type: ignore[arg-type]

    broken = True
    harness.cluster.create = breaks  # type: ignore[method-assign, assignment]
    harness.start()
    await harness.create(BAD, GOOD)
    await has_status(harness, "m1", "Admitted")
    (entry,) = await held(harness, ("m2", "resources"))
    assert entry.reason.startswith("RecursionError")
    broken = False
    await has_status(harness, "m2", "Admitted")
    await held(harness)


async def test_what_an_earlier_leader_put_aside_is_tried_again_at_the_start(harness: PlatformHarness) -> None:
    await harness.log.publish([mark("resources", "m2", b'{"reason":"KeyError","since":null,"waiting":0}')])
    await held(harness, ("m2", "resources"))
    harness.start()
    await held(harness)


def test_an_entity_whose_obstacles_are_unknown_waits_and_says_so() -> None:
    observed = ObservedClaims(1.0)
    for id in ("r1", "r2"):
        observed.update(id, claim_of(make_report(id)))
    broken = replace(observed.waiting["r1"], needs=(None,))  # type: ignore[arg-type]
    obstacles = observed.find_obstacles([broken, observed.waiting["r2"]], {})
    reasons = {id: obstacle.reason for id, obstacle in obstacles.items() if isinstance(obstacle, Wait)}
    assert reasons == {"r1": "Quarantined", "r2": "WaitingForEvaluation"}


def test_one_whose_quotas_cannot_be_read_is_kept_waiting_alone() -> None:
    limits = ExemptingLimits(Quotas(QuotaSettings()))
    good = replace(claim_of(GOOD), quantities={ADMITTED: "1"})
    broken = replace(
        good, id="m2", json=b'{"securityContext":{"ignoreQuotas":[{', quantities={ADMITTED: "999"}
    )
    at = AdmissionContext([], {}, START, timedelta(minutes=1))
    decisions = admissions([broken, good], limits, at)
    assert decisions["m1"] == Admit()
    assert isinstance(decisions["m2"], Wait)
    assert "cannot be determined: JSONDecodeError" in decisions["m2"].message


async def test_each_is_processed_separately() -> None:
    failed: dict[int, str] = {}

    async def work(number: int) -> int:
        if number == 2:
            raise OverflowError("too large")
        if number == 9:
            raise EngineError("the disk is full")
        return number

    async def on_failure(number: int, error: Exception) -> None:
        failed[number] = str(error)

    assert await run_isolated(range(5), work, on_failure) == [0, 1, 3, 4]
    assert failed == {2: "too large"}
    with pytest.raises(EngineError):
        await run_isolated([9], work, on_failure)
