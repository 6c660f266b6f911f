"""Every workflow, from every state that a bounded search reaches: whatever happens, it ends where it should."""

import pytest

from steelyard.operator.simulation.resources import (
    make_analysis,
    make_audit,
    make_data_source,
    make_dataset,
    make_evaluation,
    make_model,
    make_report,
    make_service,
    make_session,
)
from steelyard.operator.simulation.scenarios import EvaluationScenario, InstantScenario, StepScenario
from steelyard.operator.simulation.session_scenario import SessionScenario
from tests.exploration.search import Case, Extent, explore, parameters

WHOLE = Extent(3, 1_000)
"""Expected reasons of a scenario in which nothing runs."""
SHORT = Extent(1, 5_000)
LONG = Extent(2, 250_000)


def referring() -> StepScenario:
    evaluation = make_evaluation("ref", inferenceSessionReference="b1")
    return StepScenario(evaluation, "Verified", "ClientFailed", ("client", "verify"))


BEGUN = ("operator looks", "session becomes ready", "caches catch up", "operator looks")
SUCCEEDED = (*BEGUN, "caches catch up", "Pod starts", "Job succeeds")
UNSEEN = ("operator looks", "only resource catch up", "operator looks")
EVICTED = ("Pod starts", "Job is evicted", "caches catch up")
UNRECORDED = ("operator looks", *EVICTED, "crash before patch/status")
UNRECORDED_TWICE = (*UNRECORDED, *EVICTED, "crash before patch/status")


def evaluation() -> EvaluationScenario:
    return EvaluationScenario(make_evaluation("eval"))


def session() -> SessionScenario:
    return SessionScenario(make_session("sess"))


def expiring() -> SessionScenario:
    return SessionScenario(make_session("exp", expires="2026-01-01T02:00:00Z"))


def model() -> StepScenario:
    return StepScenario(make_model("model"), "Ready", "FetchFailed")


def data_source() -> StepScenario:
    return StepScenario(make_data_source("source"), "Ready", "FetchFailed")


def dataset() -> StepScenario:
    return StepScenario(make_dataset("dataset"), "Ready", "IngestFailed")


def report() -> StepScenario:
    return StepScenario(make_report("report"), "Complete", "StepFailed")


def analysis() -> StepScenario:
    return StepScenario(make_analysis("analysis"), "Complete", "StepFailed")


def audit() -> StepScenario:
    return StepScenario(make_audit("audit"), "Complete", "StepFailed")


def service() -> InstantScenario:
    return InstantScenario(make_service("service"), "Ready")


def bad_report() -> InstantScenario:
    return InstantScenario(make_report("bad", rubric=7), "BadRequest")


CASES = [
    Case("an evaluation with its own session", evaluation, SHORT, LONG),
    Case("an evaluation whose session was never seen", evaluation, SHORT, LONG, UNSEEN),
    Case(
        "an evaluation whose session fails late",
        evaluation,
        SHORT,
        LONG,
        (*SUCCEEDED, "session fails"),
    ),
    Case("an evaluation of a running session", referring, SHORT, LONG),
    Case("a session", session, SHORT, LONG),
    Case("a session that expires", expiring, SHORT, LONG),
    Case("a model", model, SHORT, LONG),
    Case(
        "a model whose second attempt was not recorded",
        model,
        SHORT,
        LONG,
        UNRECORDED,
    ),
    Case(
        "a model whose unrecorded attempt failed",
        model,
        SHORT,
        LONG,
        UNRECORDED_TWICE,
    ),
    Case("a data source", data_source, SHORT, LONG),
    Case("a dataset of a data source", dataset, SHORT, LONG),
    Case("a report", report, SHORT, LONG),
    Case("an analysis", analysis, SHORT, LONG),
    Case("an audit", audit, SHORT, LONG),
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
