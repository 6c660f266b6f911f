from dataclasses import replace
from datetime import timedelta

import pytest

from steelyard.accounts.database import Claim
from steelyard.accounts.quotas import ADMITTED, Quotas, QuotaSettings
from steelyard.schema.base import DyffEntity
from steelyard.services.orchestrator.admission import Situation, admissions
from steelyard.services.orchestrator.desired import wanted
from steelyard.services.orchestrator.observed import World
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.orchestrator.waiting import Admit, Fail, Wait
from steelyard.services.simulation.entities import (
    START,
    make_dataset,
    make_evaluation,
    make_model,
    make_service,
)

RETELL = 5.0


def make_claim(entity: DyffEntity, **fields: object) -> Claim:
    blocked = frozenset({"d1", "s1"}) if entity.dump()["kind"] == "Evaluation" else frozenset[str]()
    return replace(claim_of(entity), blocked=blocked, quantities={ADMITTED: "1"}, **fields)  # type: ignore[arg-type]


def looked_at(world: World) -> set[str]:
    found = world.to_look_at()
    world.judge(found, {})
    return {each.claim.id for each in found}


EVALUATION = make_claim(make_evaluation())


def test_a_change_wakes_those_who_wait_for_it_and_nobody_else() -> None:
    world = World(RETELL)
    assert world.see("e1", EVALUATION)
    assert world.see("m1", make_claim(make_model()))
    assert looked_at(world) == {"e1", "m1"}
    assert not world.see("x1", claim_of(make_dataset("x1")))
    assert world.see("d1", claim_of(make_dataset(status="Ready")))
    assert looked_at(world) == {"e1"}
    assert looked_at(world) == set()


def test_what_was_said_of_a_waiter_is_no_reason_to_look_at_it_again() -> None:
    world = World(RETELL)
    world.see("e1", EVALUATION)
    looked_at(world)
    assert not world.see(
        "e1", replace(EVALUATION, reason="UnsatisfiedDependency", message="waiting for Dataset d1")
    )
    assert looked_at(world) == set()
    assert world.see("d1", claim_of(make_dataset(status="Ready")))
    assert world.waiting["e1"].claim.reason == "UnsatisfiedDependency"


@pytest.mark.parametrize(
    "claim",
    [
        None,
        make_claim(make_evaluation(status="Terminated"), terminal_at=START),
        make_claim(make_evaluation(status="Admitted"), admitted_at=START),
    ],
)
def test_who_waits_no_longer_is_not_looked_at(claim: Claim | None) -> None:
    world = World(RETELL)
    world.see("e1", EVALUATION)
    world.see("e1", claim)
    assert not world.waiting
    assert not world.see("d1", claim_of(make_dataset(status="Ready")))


def test_who_is_admitted_holds_until_it_is_released() -> None:
    world = World(RETELL)
    admitted = make_claim(make_model(status="Admitted"), admitted_at=START)
    assert world.see("m1", admitted)
    assert not world.see("m1", replace(admitted, message="attempt 2"))
    assert not world.see("m1", replace(admitted, status="Ready", terminal_at=START))
    assert set(world.held) == {"m1"}
    assert world.see("m1", replace(admitted, status="Ready", released_at=START))
    assert not world.held
    assert world.turns == {(admitted.account, ADMITTED): START}


def test_the_same_thing_is_said_once() -> None:
    world = World(RETELL)
    world.see("e1", replace(EVALUATION, reason="UnsatisfiedDependency", message="waiting for Dataset d1"))
    said = Wait("UnsatisfiedDependency", "waiting for Dataset d1")
    other, failed = Wait("UnsatisfiedDependency", "waiting for InferenceService s1"), Fail("Failed", "x", "y")
    assert not world.news("e1", said, START), "its state says so already"
    assert world.news("e1", other, START)
    assert not world.news("e1", other, START)
    assert world.news("e1", failed, START)
    assert not world.news("e1", failed, START)


def test_a_position_is_told_now_and_then() -> None:
    world = World(RETELL)
    world.see("m1", make_claim(make_model()))
    first, second = (
        Wait("QuotaLimit", f"Account quota exceeded: 1/1 (position {number})") for number in (2, 1)
    )
    assert world.news("m1", first, START)
    assert not world.news("m1", second, START + timedelta(seconds=4))
    assert world.news("m1", second, START + timedelta(seconds=5))


def test_a_long_queue_does_not_flood_the_log() -> None:
    """300 wait, one is admitted every second: a few messages about each of them."""
    world, limits = World(RETELL), Quotas(QuotaSettings(everything={ADMITTED: "1"}, account={}))
    for number in range(300):
        created = START + timedelta(milliseconds=number)
        world.see(f"m{number:03}", make_claim(make_model(f"m{number:03}", creationTime=created)))
    messages = 0
    for second in range(300):
        now = START + timedelta(seconds=second + 1)
        world.judge(world.to_look_at(), {})
        at = Situation((), world.turns, now, timedelta(hours=1))
        for id, decision in admissions(list(world.free.values()), limits, at).items():
            if isinstance(decision, Admit):
                world.admit(world.waiting[id].claim, now)
                world.release(id)
            elif isinstance(decision, Wait):
                messages += world.news(id, decision, now)
    assert not world.waiting
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
        (claim_of(make_dataset(status="Ready")), "absent", None),
    ],
)
def test_which_resource_is_wanted(claim: Claim | None, word: str, minutes: int | None) -> None:
    found = wanted(claim, START, 3600)
    assert found.word == word
    assert found.until == (START + timedelta(minutes=minutes) if minutes else None)
