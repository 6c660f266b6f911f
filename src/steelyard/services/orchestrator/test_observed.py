"""The orchestrator's waiters and holders: who is woken by what, and the log."""

from dataclasses import replace
from datetime import timedelta

import pytest

from steelyard.accounts.claims import Claim
from steelyard.accounts.quotas import ADMITTED, Quotas, QuotaSettings
from steelyard.services.orchestrator.admission import AdmissionContext, admissions
from steelyard.services.orchestrator.desired import decide_resource
from steelyard.services.orchestrator.observed import ObservedClaims
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.orchestrator.waiting import Admit, Fail, Wait
from steelyard.services.simulation.entities import (
    START,
    make_dataset,
    make_evaluation,
    make_model,
    make_service,
)
from steelyard_schema.base import DyffEntity

RETELL = 5.0


def make_claim(entity: DyffEntity, **fields: object) -> Claim:
    blocked = frozenset({"d1", "s1"}) if entity.dump()["kind"] == "Evaluation" else frozenset[str]()
    return replace(claim_of(entity), blocked=blocked, quantities={ADMITTED: "1"}, **fields)  # type: ignore[arg-type]


def looked_at(observed: ObservedClaims) -> set[str]:
    waiters = observed.list_changed()
    observed.find_obstacles(waiters, {})
    return {waiter.claim.id for waiter in waiters}


EVALUATION = make_claim(make_evaluation())


def test_a_change_wakes_only_those_who_wait_for_it() -> None:
    observed = ObservedClaims(RETELL)
    assert observed.update("e1", EVALUATION)
    assert observed.update("m1", make_claim(make_model()))
    assert looked_at(observed) == {"e1", "m1"}
    assert not observed.update("x1", claim_of(make_dataset("x1", status="WaitingForUpload")))
    assert observed.update("d1", claim_of(make_dataset(status="Ready")))
    assert looked_at(observed) == {"e1"}
    assert looked_at(observed) == set()


def test_what_was_said_of_a_waiter_is_no_reason_to_look_at_it_again() -> None:
    observed = ObservedClaims(RETELL)
    observed.update("e1", EVALUATION)
    looked_at(observed)
    assert not observed.update(
        "e1", replace(EVALUATION, reason="UnsatisfiedDependency", message="waiting for Dataset d1")
    )
    assert looked_at(observed) == set()
    assert observed.update("d1", claim_of(make_dataset(status="Ready")))
    assert observed.waiting["e1"].claim.reason == "UnsatisfiedDependency"


@pytest.mark.parametrize(
    "claim",
    [
        None,
        make_claim(make_evaluation(status="Terminated"), terminal_at=START),
        make_claim(make_evaluation(status="Admitted"), admitted_at=START),
    ],
)
def test_a_waiter_that_has_gone_is_not_checked(claim: Claim | None) -> None:
    observed = ObservedClaims(RETELL)
    observed.update("e1", EVALUATION)
    observed.update("e1", claim)
    assert not observed.waiting
    assert not observed.update("d1", claim_of(make_dataset(status="Ready")))


def test_who_is_admitted_holds_until_it_is_released() -> None:
    observed = ObservedClaims(RETELL)
    admitted = make_claim(make_model(status="Admitted"), admitted_at=START)
    assert observed.update("m1", admitted)
    assert not observed.update("m1", replace(admitted, message="attempt 2"))
    assert not observed.update("m1", replace(admitted, status="Ready", terminal_at=START))
    assert set(observed.held) == {"m1"}
    assert observed.update("m1", replace(admitted, status="Ready", released_at=START))
    assert not observed.held
    assert observed.turns == {(admitted.account, ADMITTED): START}


def test_the_same_thing_is_said_once() -> None:
    observed = ObservedClaims(RETELL)
    observed.update(
        "e1", replace(EVALUATION, reason="UnsatisfiedDependency", message="waiting for Dataset d1")
    )
    said = Wait("UnsatisfiedDependency", "waiting for Dataset d1")
    other, failed = Wait("UnsatisfiedDependency", "waiting for InferenceService s1"), Fail("Failed", "x", "y")
    assert not observed.begin_report("e1", said, START), "its state says so already"
    assert observed.begin_report("e1", other, START)
    assert not observed.begin_report("e1", other, START)
    assert observed.begin_report("e1", failed, START)
    assert not observed.begin_report("e1", failed, START)


def test_a_position_is_reported_now_and_then() -> None:
    observed = ObservedClaims(RETELL)
    observed.update("m1", make_claim(make_model()))
    first, second = (
        Wait("QuotaLimit", f"Account quota exceeded: 1/1 (position {number})") for number in (2, 1)
    )
    assert observed.begin_report("m1", first, START)
    assert not observed.begin_report("m1", second, START + timedelta(seconds=4))
    assert observed.begin_report("m1", second, START + timedelta(seconds=5))


def test_a_long_queue_does_not_flood_the_log() -> None:
    """300 wait, one is admitted every second: a few messages about each of them."""
    observed, limits = ObservedClaims(RETELL), Quotas(QuotaSettings(everything={ADMITTED: "1"}, account={}))
    for number in range(300):
        created = START + timedelta(milliseconds=number)
        observed.update(f"m{number:03}", make_claim(make_model(f"m{number:03}", creationTime=created)))
    messages = 0
    for second in range(300):
        now = START + timedelta(seconds=second + 1)
        observed.find_obstacles(observed.list_changed(), {})
        at = AdmissionContext((), observed.turns, now, timedelta(hours=1))
        for id, decision in admissions(list(observed.free.values()), limits, at).items():
            if isinstance(decision, Admit):
                observed.admit(observed.waiting[id].claim, now)
                observed.release(id)
            elif isinstance(decision, Wait):
                messages += observed.begin_report(id, decision, now)
    assert not observed.waiting
    assert messages < 300 * 7


@pytest.mark.parametrize(
    ("claim", "word", "minutes"),
    [
        (None, "absent", None),
        (make_claim(make_service(status="Created")), "as it is", None),
        (make_claim(make_service(status="Created"), admitted_at=START), "present", None),
        (make_claim(make_service(status="Admitted"), admitted_at=START), "present", None),
        (make_claim(make_service(status="Ready"), admitted_at=START, terminal_at=START), "as it is", 60),
        (
            make_claim(
                make_service(status="Ready"), admitted_at=START, terminal_at=START - timedelta(hours=1)
            ),
            "absent",
            None,
        ),
        (make_claim(make_service(status="Terminated"), admitted_at=START, terminal_at=START), "absent", None),
        (make_claim(make_service(status="Deleted"), terminal_at=START), "absent", None),
        (claim_of(make_dataset(status="WaitingForUpload")), "as it is", None),
    ],
)
def test_which_resource_should_exist(claim: Claim | None, word: str, minutes: int | None) -> None:
    desired = decide_resource(claim, START, 3600)
    assert desired.presence == word
    assert desired.until == (START + timedelta(minutes=minutes) if minutes else None)
