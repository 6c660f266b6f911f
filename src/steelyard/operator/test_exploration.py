"""Eventually stable reconciliation, checked: every workflow from every state that a bounded search reaches."""

from collections.abc import Callable

import pytest

from steelyard.operator.doubles import (
    make_audit,
    make_evaluation,
    make_model,
    make_report,
    make_service,
    make_session,
)
from steelyard.operator.exploration import Exploration, Search, World
from steelyard.operator.session_world import SessionWorld
from steelyard.operator.worlds import EvaluationWorld, InstantWorld, StepWorld

FAULTS = 3
SOAK = 60_000  # states of each world


def referring() -> World:
    evaluation = make_evaluation("ref", inferenceSessionReference="b1")
    return StepWorld(evaluation, "Verified", "ClientFailed", ("client", "verify"))


WORLDS: list[tuple[str, Callable[[], World], int]] = [
    ("an evaluation with its own session", lambda: EvaluationWorld(make_evaluation("eval")), 4500),
    ("an evaluation of a running session", referring, 2500),
    ("a session", lambda: SessionWorld(make_session("sess")), 2000),
    (
        "a session that expires",
        lambda: SessionWorld(make_session("exp", expires="2026-01-01T02:00:00Z")),
        1500,
    ),
    ("a model", lambda: StepWorld(make_model("model"), "Ready", "FetchFailed"), 1500),
    ("a report", lambda: StepWorld(make_report("report"), "Complete", "StepFailed"), 1500),
    ("a service", lambda: InstantWorld(make_service("service"), "Ready"), 1000),
    ("an audit", lambda: InstantWorld(make_audit("audit"), "NotImplemented"), 1000),
    ("a bad spec", lambda: InstantWorld(make_report("bad", rubric=7), "BadRequest"), 1000),
]


def explore(make: Callable[[], World], limit: int, capsys: pytest.CaptureFixture[str]) -> Exploration:
    world = make()
    found = Search(world, limit=limit, faults=FAULTS).run()
    with capsys.disabled():
        print(f"\n{found}", end="")
    never = world.transitions - set(found.taken)
    assert not never, f"the search never looked at: {', '.join(sorted(never))}"
    return found


@pytest.mark.parametrize(("make", "limit"), [pytest.param(*each[1:], id=each[0]) for each in WORLDS])
def test_whatever_happens_it_ends_where_it_should(
    make: Callable[[], World], limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    explore(make, limit, capsys)


@pytest.mark.soak
@pytest.mark.parametrize("make", [pytest.param(each[1], id=each[0]) for each in WORLDS])
def test_whatever_happens_at_length(make: Callable[[], World], capsys: pytest.CaptureFixture[str]) -> None:
    explore(make, SOAK, capsys)
