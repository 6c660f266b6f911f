"""Eventually stable reconciliation, checked: every workflow from every state that a bounded search reaches."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from steelyard.operator.doubles import (
    make_audit,
    make_evaluation,
    make_model,
    make_report,
    make_service,
    make_session,
)
from steelyard.operator.exploration import Search, World
from steelyard.operator.session_world import SessionWorld
from steelyard.operator.worlds import EvaluationWorld, InstantWorld, StepWorld

FAULTS = 3
SOAK = 60_000  # states of each world


def referring() -> World:
    evaluation = make_evaluation("ref", inferenceSessionReference="b1")
    return StepWorld(evaluation, "Verified", "ClientFailed", ("client", "verify"))


BEGUN = ("operator looks", "session becomes ready", "caches catch up", "operator looks")
SUCCEEDED = (*BEGUN, "caches catch up", "Pod starts", "Job succeeds")
UNSEEN = ("operator looks", "only resource catch up", "operator looks")
EVICTED = ("Pod starts", "Job is evicted", "caches catch up")
UNRECORDED = ("operator looks", *EVICTED, "crash before patch/status")
UNRECORDED_TWICE = (*UNRECORDED, *EVICTED, "crash before patch/status")


@dataclass(frozen=True)
class Case:
    """A world, where its search begins, and how many states are looked at among the unit tests."""

    name: str
    make: Callable[[], World]
    limit: int
    after: tuple[str, ...] = ()


def evaluation() -> World:
    return EvaluationWorld(make_evaluation("eval"))


def expiring() -> World:
    return SessionWorld(make_session("exp", expires="2026-01-01T02:00:00Z"))


def model() -> World:
    return StepWorld(make_model("model"), "Ready", "FetchFailed")


CASES = [
    Case("an evaluation with its own session", evaluation, 4000),
    Case("an evaluation whose session was never seen", evaluation, 600, UNSEEN),
    Case("an evaluation whose session fails late", evaluation, 1200, (*SUCCEEDED, "session fails")),
    Case("an evaluation of a running session", referring, 2200),
    Case("a session", lambda: SessionWorld(make_session("sess")), 1500),
    Case("a session that expires", expiring, 1300),
    Case("a model", model, 1200),
    Case("a model whose second attempt was not recorded", model, 1500, UNRECORDED),
    Case("a model whose unrecorded attempt failed", model, 900, UNRECORDED_TWICE),
    Case("a report", lambda: StepWorld(make_report("report"), "Complete", "StepFailed"), 1000),
    Case("a service", lambda: InstantWorld(make_service("service"), "Ready"), 1000),
    Case("an audit", lambda: StepWorld(make_audit("audit"), "Complete", "StepFailed"), 1000),
    Case("a bad spec", lambda: InstantWorld(make_report("bad", rubric=7), "BadRequest"), 1000),
]
EACH = [pytest.param(case, id=case.name.replace(" ", "-")) for case in CASES]


def explore(case: Case, limit: int, capsys: pytest.CaptureFixture[str]) -> None:
    world = case.make()
    found = Search(world, limit=limit, faults=FAULTS, after=case.after).run()
    with capsys.disabled():
        print(f"\n{case.name}: {found}", end="")
    never = world.transitions - set(found.taken)
    assert not never or case.after, f"the search never looked at: {', '.join(sorted(never))}"


@pytest.mark.parametrize("case", EACH)
def test_whatever_happens_it_ends_where_it_should(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    explore(case, case.limit, capsys)


@pytest.mark.soak
@pytest.mark.parametrize("case", EACH)
def test_whatever_happens_at_length(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    explore(case, SOAK, capsys)
