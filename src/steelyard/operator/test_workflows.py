"""Decisions of each workflow: cases that differ only in their texts, which the exploration does not compare."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard.operator.children import Children
from steelyard.operator.conditions import History, Phase, make_status
from steelyard.operator.desired import DesiredState
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import (
    make_analysis,
    make_audit,
    make_data_source,
    make_dataset,
    make_evaluation,
    make_foreign_service,
    make_model,
    make_report,
    make_runner,
    make_service,
    make_session,
)
from steelyard.operator.workflow import WORKFLOWS
from steelyard_common.awake import Sleep, Sleeps
from steelyard_common.types import Json
from steelyard_kube.objects import true_condition
from steelyard_kube.resource import find_resource
from steelyard_schema.resources import RESOURCES

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
SETTINGS = OperatorSettings(storage="file:///storage")


def look(resource: Json, now: datetime = NOW, settings: OperatorSettings = SETTINGS) -> DesiredState:
    return WORKFLOWS[find_resource(resource)].reconcile(resource, Children(), now, settings)


def judged(resource: Json, settings: OperatorSettings = SETTINGS) -> tuple[str, str, str]:
    """Status, reason and message of a resource that ends at first sight."""
    want = look(resource, settings=settings)
    assert not want.create
    finished = next(condition for condition in want.status["conditions"] if condition["type"] == "Finished")
    assert finished["status"] == "True"
    return want.status["status"], want.status["reason"], finished["message"]


BUILDER = make_service(builder={"kind": "docker"})
IMAGE_REF = make_runner(image=None, imageRef={"kind": "OCIArtifact", "id": "b1"})


@pytest.mark.parametrize(
    ("resource", "status", "reason", "word"),
    [
        pytest.param(
            make_audit(storage={"inputs": {"a5": "reports/../a5"}}),
            "Failed",
            "BadRequest",
            "spec.storage.inputs.a5",
            id="an audit of a report that climbs",
        ),
        pytest.param(make_model(source="Mock"), "Ready", "Ready", "", id="a mock model is ready"),
        pytest.param(make_model(source="OpenLLM"), "Error", "NotImplemented", "OpenLLM", id="OpenLLM"),
        pytest.param(
            make_data_source(sourceKind="ftp"),
            "Error",
            "FetchFailed",
            "sourceKind",
            id="a strange place",
        ),
        pytest.param(
            make_data_source(source="../etc"), "Error", "FetchFailed", "spec.source", id="a path for a place"
        ),
        pytest.param(make_service(), "Ready", "Ready", "", id="a service is ready"),
        pytest.param(BUILDER, "Error", "NotImplemented", "spec.builder", id="a builder"),
        pytest.param(
            make_service(runner=IMAGE_REF), "Error", "BadImage", "spec.runner.imageRef", id="an imageRef"
        ),
        pytest.param(
            make_session(inferenceService=make_foreign_service(runner=IMAGE_REF)),
            "Error",
            "BadImage",
            "spec.inferenceService.runner.imageRef",
            id="a session of an imageRef",
        ),
        pytest.param(
            make_evaluation(replications=0), "Failed", "BadRequest", "spec.replications", id="wrong value"
        ),
        pytest.param(
            make_evaluation(colour="red"),
            "Failed",
            "BadRequest",
            "spec.colour: is not a field here, with the value 'red'; there are account, client, dataset, ",
            id="unknown field",
        ),
        pytest.param(
            make_analysis(arguments=[{"keyword": "a", "value": 7}]),
            "Failed",
            "BadRequest",
            "spec.arguments.0.value",
            id="an argument that is not text",
        ),
        pytest.param(make_report(rubric=7), "Failed", "BadRequest", "spec.rubric", id="wrong type"),
        pytest.param(
            make_report(storage={"inputs": {"dataset": "a/../b"}}),
            "Failed",
            "BadRequest",
            "spec.storage.inputs.dataset",
            id="a path that climbs",
        ),
    ],
)
def test_judged_at_first_sight(resource: Json, status: str, reason: str, word: str) -> None:
    desired = judged(resource)
    assert desired[:2] == (status, reason)
    assert word in desired[2]


def test_a_missing_field_is_named() -> None:
    report = make_report()
    del report["spec"]["evaluation"]
    assert "spec.evaluation" in judged(report)[2]


def test_a_prefix_needs_the_setting_storage() -> None:
    assert "setting storage" in judged(make_report(), OperatorSettings())[2]


@pytest.mark.parametrize(
    "resource",
    [
        make_analysis(),
        make_audit(),
        make_data_source(),
        make_dataset(),
        make_evaluation(),
        make_model(),
        make_report(),
        make_service(),
        make_session(),
    ],
    ids=lambda resource: resource["kind"],
)
def test_every_type_of_condition_is_always_present(resource: Json) -> None:
    status = look(resource).status
    assert [condition["type"] for condition in status["conditions"]] == list(
        RESOURCES[resource["kind"]].conditions
    )
    assert all(
        condition["observedGeneration"] == 1 and condition["reason"] for condition in status["conditions"]
    )
    assert status["observedGeneration"] == 1


def test_a_transition_has_the_time_at_which_it_happened() -> None:
    session = make_session()
    session["status"] = look(session).status
    later = look(session, NOW + timedelta(minutes=1)).status
    assert later == session["status"]
    ready = make_status(session, Phase("ready", "Ready"), History({}), NOW + timedelta(minutes=2))
    times = {condition["type"]: condition["lastTransitionTime"] for condition in ready["conditions"]}
    assert times["Ready"] == times["Progressing"] == "2026-01-01T01:02:00Z"
    assert times["Failed"] == "2026-01-01T01:00:00Z"


def test_an_end_stays_whatever_comes() -> None:
    evaluation = make_evaluation()
    evaluation["status"] = make_status(evaluation, Phase("failed", "ClientFailed"), History({}), NOW)
    again = make_status(evaluation, Phase("complete", "Verified"), History({}), NOW)
    assert again == evaluation["status"]
    assert true_condition(evaluation, "Failed")
    assert look(evaluation).create == ()


@pytest.mark.parametrize(("ttl", "seconds", "gone"), [(None, 10**6, False), (60, 59, False), (60, 60, True)])
def test_the_resource_goes_when_its_time_is_over(ttl: int | None, seconds: int, gone: bool) -> None:
    model = make_model(source="Mock", ttlSecondsAfterFinished=ttl)
    model["status"] = look(model).status
    want = look(model, NOW + timedelta(seconds=seconds))
    assert want.delete_resource is gone
    assert want.requeue_at == (NOW + timedelta(seconds=60) if ttl else None)


def test_a_session_is_reconciled_again_at_its_deadlines() -> None:
    assert look(make_session()).requeue_at == NOW + timedelta(minutes=30)
    soon = make_session(expires="2026-01-01T01:10:00Z")
    assert look(soon).requeue_at == NOW + timedelta(minutes=10)


def test_a_sessions_start_deadline_counts_time_awake() -> None:
    session = make_session()
    begun = {**session, "status": look(session).status}
    sleep = Sleep(NOW + timedelta(hours=8), 7.9 * 3600)
    slept = SETTINGS.model_copy(update={"sleeps": Sleeps((sleep,))})
    assert look(begun, sleep.until).status["status"] == "Error"
    want = look(begun, sleep.until, slept)
    assert want.status["status"] != "Error"
    assert want.requeue_at == NOW + timedelta(minutes=30, hours=7.9)


def test_a_session_that_was_ready_once_has_no_start_deadline_any_more() -> None:
    """Replicas may all be created again at once, by a node that is drained or an image that is pulled again."""
    session = make_session()
    name = session["metadata"]["name"]
    owner = {"kind": "ReplicaSet", "name": f"{name}-5d8f", "uid": "r1", "controller": True}
    pod = {
        "metadata": {"name": f"{name}-5d8f-x", "ownerReferences": [owner]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    workflow = WORKFLOWS[find_resource(session)]
    session["status"] = workflow.reconcile(session, Children(pods=(pod,)), NOW, SETTINGS).status
    assert session["status"]["reason"] == "Ready"
    again = look(session, NOW + timedelta(days=1))
    assert (again.status["reason"], again.requeue_at) == ("Starting", None)
    assert true_condition({"status": again.status}, "Failed") is None


VLLM_LOG = (
    "INFO 11-22 loading\nTraceback (most recent call last):\n  File x\nValueError: no such dtype\nINFO bye\n"
)
ACCESS_LOG = 'INFO:     127.0.0.1:42624 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize(
    ("runner", "restarts", "log", "ready", "reason", "message"),
    [
        ("container", 0, "no model", 0, "RunnerCrashed", "runner exited 1, started once: no model"),
        (
            "vllm",
            2,
            VLLM_LOG,
            0,
            "RunnerCrashed",
            "runner exited 1, started 3 times: ValueError: no such dtype",
        ),
        ("vllm", 1, "", 1, "Ready", "1 of 2 replicas are ready; runner exited 1, started 2 times"),
        ("vllm", 1, ACCESS_LOG, 0, "RunnerCrashed", "runner exited 1, started 2 times"),
    ],
)
def test_a_session_says_from_the_first_crash_on_why(
    runner: str, restarts: int, log: str, ready: int, reason: str, message: str
) -> None:
    session = make_session(replicas=2, inferenceService=make_foreign_service(runner=make_runner(runner)))
    name = session["metadata"]["name"]
    owner = {"kind": "ReplicaSet", "name": f"{name}-5d8f", "uid": "r1", "controller": True}
    end = {"terminated": {"exitCode": 1, "message": log}}
    crashed = {"name": "runner", "restartCount": restarts, "state": {"waiting": {}}, "lastState": end}
    if not restarts:
        crashed |= {"state": end, "lastState": {}}
    statuses: list[Json] = [
        {"conditions": [{"type": "Ready", "status": "True"}]}
        if number < ready
        else {"containerStatuses": [crashed]}
        for number in range(2)
    ]
    pods = tuple(
        {"metadata": {"name": f"{name}-5d8f-{number}", "ownerReferences": [owner]}, "status": status}
        for number, status in enumerate(statuses)
    )
    want = WORKFLOWS[find_resource(session)].reconcile(session, Children(pods=pods), NOW, SETTINGS)
    holding = next(
        condition
        for condition in want.status["conditions"]
        if condition["status"] == "True" and condition["type"] in ("Progressing", "Ready")
    )
    assert (holding["reason"], holding["message"]) == (reason, message)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (
            {"exitCode": 137, "reason": "Error", "message": ACCESS_LOG},
            "runner was killed by signal 9, started 2 times",
        ),
        # A request's error of long ago is not what killed it.
        (
            {"exitCode": 137, "signal": 9, "message": VLLM_LOG},
            "runner was killed by signal 9, started 2 times",
        ),
        (
            {"exitCode": 137, "reason": "OOMKilled", "message": ACCESS_LOG},
            "runner was killed by signal 9, started 2 times: OOMKilled",
        ),
        (
            {"exitCode": 134, "reason": "Error", "message": VLLM_LOG},
            "runner was killed by signal 6, started 2 times: ValueError: no such dtype",
        ),
    ],
    ids=["with an access log", "after an error", "by a lack of memory", "by itself, with an error"],
)
def test_a_session_names_the_signal_that_killed_its_server(end: Json, message: str) -> None:
    session = make_session(inferenceService=make_foreign_service(runner=make_runner("vllm")))
    name = session["metadata"]["name"]
    crashed = {
        "name": "runner",
        "restartCount": 1,
        "state": {"waiting": {}},
        "lastState": {"terminated": end},
    }
    owner = {"kind": "ReplicaSet", "name": f"{name}-5d8f", "uid": "r1", "controller": True}
    pod = {
        "metadata": {"name": f"{name}-5d8f-0", "ownerReferences": [owner]},
        "status": {"containerStatuses": [crashed]},
    }
    want = WORKFLOWS[find_resource(session)].reconcile(session, Children(pods=(pod,)), NOW, SETTINGS)
    assert message in [condition.get("message") for condition in want.status["conditions"]]
