"""Why an entity waits, or never runs, in words."""

import pytest

from steelyard.accounts.claims import Claim
from steelyard.services.orchestrator.waiting import Fail, Wait, Waiter, display_name, make_waiter, obstacle
from steelyard.services.simulation.entities import (
    make_audit,
    make_data_source,
    make_dataset,
    make_dataset_of_source,
    make_evaluation,
    make_measurement,
    make_model,
    make_report,
    make_runner,
    make_safety_case,
    make_service,
    make_session,
)
from steelyard_schema.base import DyffEntity

FOREIGN_MODEL = {"id": "m1", "account": "a", "name": "m", "artifact": {"kind": "Mock"}}


def claim_of(entity: DyffEntity) -> Claim:
    content = entity.dump()
    return Claim(
        id=entity.id,
        kind=content["kind"],
        account=entity.account,
        status=entity.status,
        json=entity.dump_json().encode(),
        position=(1, 1),
        created=entity.creationTime,
        reason=entity.reason,
        message=entity.message,
    )


def waiter(entity: DyffEntity) -> Waiter:
    return make_waiter(claim_of(entity), entity)


def known(*entities: DyffEntity) -> dict[str, Claim]:
    return {entity.id: claim_of(entity) for entity in entities}


READY_DATASET, READY_SERVICE = make_dataset(status="Ready"), make_service(status="Ready")
DATASET = make_dataset_of_source()
SERVICE, EVALUATION, REPORT = make_service(model=FOREIGN_MODEL), make_evaluation(), make_report()


@pytest.mark.parametrize(
    ("entity", "there", "reason", "message"),
    [
        pytest.param(
            SERVICE, [], "WaitingForModel", "waiting for Model m1, which is not there yet", id="unknown model"
        ),
        pytest.param(
            SERVICE,
            [make_model()],
            "WaitingForModel",
            "waiting for Model digits-small",
            id="model on its way",
        ),
        pytest.param(
            SERVICE,
            [make_model(status="WaitingForUpload")],
            "WaitingForModel",
            "waiting for Model digits-small, whose upload is not finalized",
            id="model not uploaded",
        ),
        pytest.param(
            DATASET,
            [make_data_source(status="Admitted")],
            "WaitingForDataSource",
            "waiting for DataSource digits",
            id="data source on its way",
        ),
        pytest.param(
            EVALUATION,
            [READY_DATASET],
            "UnsatisfiedDependency",
            "waiting for InferenceService s1, which is not there yet",
            id="unknown service",
        ),
        pytest.param(
            EVALUATION,
            [make_service(status="Admitted")],
            "UnsatisfiedDependency",
            "waiting for Dataset d1, which is not there yet; and for 1 more",
            id="two things",
        ),
        pytest.param(
            REPORT,
            [make_evaluation(status="Admitted")],
            "WaitingForEvaluation",
            "waiting for Evaluation e1",
            id="an evaluation, which has no name",
        ),
        pytest.param(
            make_model(metadata={"preconditions": [{"kind": "Dataset", "id": "d1"}]}),
            [make_dataset(status="WaitingForUpload")],
            "UnsatisfiedDependency",
            "waiting for Dataset digits, whose upload is not finalized",
            id="a precondition",
        ),
    ],
)
def test_what_is_not_there_yet_is_waited_for(
    entity: DyffEntity, there: list[DyffEntity], reason: str, message: str
) -> None:
    decision = obstacle(waiter(entity), known(*there))
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.message) == (reason, message)


def test_a_waiter_names_all_that_it_waits_for() -> None:
    decision = obstacle(waiter(EVALUATION), known(make_service(status="Created")))
    assert isinstance(decision, Wait)
    assert decision.blocked == {"d1", "s1"}


@pytest.mark.parametrize(
    ("entity", "there", "fail"),
    [
        pytest.param(
            SERVICE,
            [make_model(status="Error", reason="FetchFailed", message="no such repository")],
            Fail("Error", "FailedDependency", "Model digits-small failed: FetchFailed: no such repository"),
            id="model that failed",
        ),
        pytest.param(
            SERVICE,
            [make_model(status="Deleted", reason="DeleteCommand")],
            Fail("Error", "NoSuchModel", "Model digits-small was deleted"),
            id="model that was deleted",
        ),
        pytest.param(
            DATASET,
            [make_data_source(status="Deleted", reason="DeleteCommand")],
            Fail("Error", "DataSourceMissing", "DataSource digits was deleted"),
            id="data source that was deleted",
        ),
        pytest.param(
            DATASET,
            [make_data_source(status="Error", reason="FetchFailed", message="answers 404")],
            Fail("Error", "FailedDependency", "DataSource digits failed: FetchFailed: answers 404"),
            id="data source that failed",
        ),
        pytest.param(
            REPORT,
            [make_evaluation(status="Deleted")],
            Fail("Error", "NoSuchEvaluation", "Evaluation e1 was deleted"),
            id="evaluation that was deleted",
        ),
        pytest.param(
            REPORT,
            [make_evaluation(status="Terminated", reason="TerminateCommand")],
            Fail("Error", "FailedDependency", "Evaluation e1 was terminated"),
            id="evaluation that was terminated",
        ),
        pytest.param(
            EVALUATION,
            [make_service(status="Deleted")],
            Fail("Error", "FailedDependency", "InferenceService digits was deleted"),
            id="service that was deleted, though the dataset may come",
        ),
        pytest.param(
            make_session(),
            [make_service(status="Error")],
            Fail("Error", "FailedDependency", "InferenceService digits failed"),
            id="failed without a word",
        ),
        pytest.param(
            make_audit(metadata={"preconditions": [{"kind": "Report", "id": "r1"}]}),
            [make_report(status="Failed", reason="StepFailed")],
            Fail("Error", "FailedDependency", "Report r1 failed: StepFailed"),
            id="a precondition that failed",
        ),
    ],
)
def test_what_will_never_come_is_a_failure(entity: DyffEntity, there: list[DyffEntity], fail: Fail) -> None:
    assert obstacle(waiter(entity), known(*there)) == fail


def test_a_spec_that_cannot_run_fails_before_anything_is_waited_for() -> None:
    service = make_service(
        model=FOREIGN_MODEL, runner=make_runner(image=None, imageRef={"kind": "OCIArtifact", "id": "o1"})
    )
    decision = obstacle(waiter(service), {})
    assert isinstance(decision, Fail)
    assert (decision.status, decision.reason) == ("Error", "BadImage")


@pytest.mark.parametrize(
    ("entity", "there"),
    [
        (EVALUATION, [READY_DATASET, READY_SERVICE]),
        (REPORT, [make_evaluation(status="Complete")]),
        (SERVICE, [make_model(status="Ready")]),
        (make_model(), []),
    ],
)
def test_nothing_is_in_the_way_of_one_whose_needs_are_met(
    entity: DyffEntity, there: list[DyffEntity]
) -> None:
    assert obstacle(waiter(entity), known(*there)) is None


def test_a_long_name_is_cut() -> None:
    one = waiter(SERVICE)
    model = claim_of(make_model(name="x" * 255))
    assert len(display_name(one.needs[0], model)) == len("Model ") + 100


def test_an_analysis_waits_for_its_method_its_data_and_the_modules_with_its_code() -> None:
    waiting = obstacle(waiter(make_safety_case()), {})
    assert isinstance(waiting, Wait)
    assert waiting.blocked == {"t1", "d1", "x1"}


def test_an_analysis_whose_inputs_its_method_does_not_name_fails() -> None:
    analysis = make_measurement(inputs=[{"keyword": "other", "entity": "d1"}])
    assert obstacle(waiter(analysis), {}) == Fail(
        "Error", "BadRequest", "inputs.0.keyword: 'other' is not an input of the method"
    )
