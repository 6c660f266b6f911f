"""Every workflow, from every state that a bounded search reaches: whatever happens, it ends where it should."""

import pytest

from steelyard.operator.doubles import (
    make_audit,
    make_evaluation,
    make_model,
    make_report,
    make_service,
    make_session,
)
from steelyard.operator.session_world import SessionWorld
from steelyard.operator.worlds import EvaluationWorld, InstantWorld, StepWorld
from tests.exploration.search import Case, Extent, explore, parameters

WHOLE = Extent(1_000, 3)
"""Of a world in which nothing runs."""


def referring() -> StepWorld:
    evaluation = make_evaluation("ref", inferenceSessionReference="b1")
    return StepWorld(evaluation, "Verified", "ClientFailed", ("client", "verify"))


BEGUN = ("operator looks", "session becomes ready", "caches catch up", "operator looks")
SUCCEEDED = (*BEGUN, "caches catch up", "Pod starts", "Job succeeds")
UNSEEN = ("operator looks", "only resource catch up", "operator looks")
EVICTED = ("Pod starts", "Job is evicted", "caches catch up")
UNRECORDED = ("operator looks", *EVICTED, "crash before patch/status")
UNRECORDED_TWICE = (*UNRECORDED, *EVICTED, "crash before patch/status")


def evaluation() -> EvaluationWorld:
    return EvaluationWorld(make_evaluation("eval"))


def session() -> SessionWorld:
    return SessionWorld(make_session("sess"))


def expiring() -> SessionWorld:
    return SessionWorld(make_session("exp", expires="2026-01-01T02:00:00Z"))


def model() -> StepWorld:
    return StepWorld(make_model("model"), "Ready", "FetchFailed")


def report() -> StepWorld:
    return StepWorld(make_report("report"), "Complete", "StepFailed")


def audit() -> StepWorld:
    return StepWorld(make_audit("audit"), "Complete", "StepFailed")


def service() -> InstantWorld:
    return InstantWorld(make_service("service"), "Ready")


def bad_report() -> InstantWorld:
    return InstantWorld(make_report("bad", rubric=7), "BadRequest")


CASES = [
    Case("an evaluation with its own session", evaluation, Extent(5_500, 1), Extent(900_000, 2)),
    Case(
        "an evaluation whose session was never seen", evaluation, Extent(3_500, 1), Extent(900_000, 2), UNSEEN
    ),
    Case(
        "an evaluation whose session fails late",
        evaluation,
        Extent(1_800, 1),
        Extent(900_000, 2),
        (*SUCCEEDED, "session fails"),
    ),
    Case("an evaluation of a running session", referring, Extent(3_500, 1), Extent(900_000, 2)),
    Case("a session", session, Extent(2_000, 1), Extent(900_000, 2)),
    Case("a session that expires", expiring, Extent(1_800, 1), Extent(900_000, 2)),
    Case("a model", model, Extent(1_600, 1), Extent(900_000, 2)),
    Case(
        "a model whose second attempt was not recorded",
        model,
        Extent(1_600, 1),
        Extent(900_000, 2),
        UNRECORDED,
    ),
    Case(
        "a model whose unrecorded attempt failed",
        model,
        Extent(1_400, 1),
        Extent(900_000, 2),
        UNRECORDED_TWICE,
    ),
    Case("a report", report, Extent(1_400, 1), Extent(900_000, 2)),
    Case("an audit", audit, Extent(1_400, 1), Extent(900_000, 2)),
    Case("a service", service, WHOLE, WHOLE),
    Case("a bad spec", bad_report, WHOLE, WHOLE),
]


@pytest.mark.parametrize("case", parameters(CASES))
def test_whatever_happens_it_ends_where_it_should(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    reached = explore(case, case.short, capsys)
    never = case.make().transitions - set(reached.taken)
    assert not never or case.after, f"the search never looked at: {', '.join(sorted(never))}"


@pytest.mark.soak
@pytest.mark.parametrize("case", parameters(CASES))
def test_whatever_happens_at_length(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    explore(case, case.long, capsys)
