"""Secrets of accounts in the objects that the operator makes: each Pod gets those that it uses, and no other."""

import json
from datetime import UTC, datetime

import pytest

from steelyard.operator.children import Children
from steelyard.operator.jobs import Step, job_and_config
from steelyard.operator.session_objects import session_objects
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import (
    DATA_MOUNT,
    make_analysis,
    make_evaluation,
    make_foreign_service,
    make_method,
    make_runner,
    make_session,
)
from steelyard.operator.workflow import WORKFLOWS
from steelyard.operator.workflows.evaluation import child_session
from steelyard_common.types import Json
from steelyard_kube.resource import ANALYSES
from steelyard_schema.resources import InferenceSessionResourceSpec

SETTINGS = OperatorSettings(storage="s3://bucket/steelyard")


def secret_job(**secrets: str) -> Json:
    """The Pod of a Job whose resource names these Secrets."""
    resource = make_evaluation(secrets=secrets)
    pod: Json = job_and_config(resource, Step("run", "fetch_model", 60), 1, 60, SETTINGS)[1]["spec"][
        "template"
    ]["spec"]
    return pod


def test_a_step_reads_its_secret_from_a_file() -> None:
    pod = secret_job(source="model-m1-source", provider="model-m1-provider", imagePull="model-m1-image-pull")
    (container,) = pod["containers"]
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "secrets")
    assert mount == {"name": "secrets", "mountPath": "/var/run/steelyard/secrets", "readOnly": True}
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "secrets")
    # Its own alone: a step that fetches files has no use for the others.
    assert volume["projected"]["sources"] == [
        {"secret": {"name": "model-m1-source", "items": [{"key": "value", "path": "source"}]}}
    ]
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert values["STEELYARD_SECRETS"] == "/var/run/steelyard/secrets"
    assert "envFrom" not in container
    assert "secretKeyRef" not in json.dumps(pod)


@pytest.mark.parametrize("secrets", [{}, {"provider": "a", "imagePull": "b"}])
def test_a_step_without_a_secret_mounts_none(secrets: dict[str, str]) -> None:
    assert "secrets" not in json.dumps(secret_job(**secrets))


def test_the_pods_of_a_session_pull_their_image_with_its_secret() -> None:
    session = make_session(secrets={"imagePull": "inferencesession-i1-image-pull"})
    pod = session_objects(session, SETTINGS)[2]["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "inferencesession-i1-image-pull"}]
    plain = session_objects(make_session(), SETTINGS)[2]["spec"]["template"]["spec"]
    assert "imagePullSecrets" not in plain


def test_an_evaluations_own_session_has_its_secrets() -> None:
    secrets = {"imagePull": "evaluation-a1-image-pull", "provider": "evaluation-a1-provider"}
    session = child_session(make_evaluation(secrets=secrets))
    assert session["spec"]["secrets"] == secrets
    InferenceSessionResourceSpec.parse(session["spec"])
    assert "secrets" not in child_session(make_evaluation())["spec"]


@pytest.mark.parametrize(
    ("own", "configured", "expected"),
    [({}, "", None), ({}, "all", "all"), ({"secret": "own"}, "all", "own"), ({"secret": "own"}, "", "own")],
)
def test_pods_open_the_storage_with_the_secret_of_their_resource_else_with_that_of_the_settings(
    own: Json, configured: str, expected: str | None
) -> None:
    settings = SETTINGS.model_copy(update={"storage_secret": configured})
    storage = {"inputs": {}, "output": "evaluations/a1", **own}
    runner = make_runner(volumeMounts=[DATA_MOUNT])
    session = make_session(inferenceService=make_foreign_service(runner=runner), storage=storage)
    _, job = job_and_config(make_evaluation(storage=storage), Step("run", "client", 60), 1, 60, settings)
    [step] = job["spec"]["template"]["spec"]["containers"]
    pod = session_objects(session, settings)[2]["spec"]["template"]["spec"]
    [fetch] = pod["initContainers"]
    for container in (step, fetch):
        assert container.get("envFrom") == (expected and [{"secretRef": {"name": expected}}])
    assert not any("envFrom" in container for container in pod["containers"]), "runners are programs of users"


@pytest.mark.parametrize(
    ("own", "configured"), [({"secret": "storage"}, ""), ({}, "storage")], ids=["own", "of the settings"]
)
def test_an_image_of_a_method_gets_no_credentials_of_the_storage(own: Json, configured: str) -> None:
    image = {"host": "r.example.com", "name": "a/b", "digest": "sha256:" + "1" * 64}
    storage = {"inputs": {}, "output": "safetycases/a0", **own}
    analysis = make_analysis(method=make_method(analysisImage=image), storage=storage)
    settings = SETTINGS.model_copy(update={"storage_secret": configured})
    want = WORKFLOWS[ANALYSES].reconcile(analysis, Children(), datetime(2026, 1, 1, 1, tzinfo=UTC), settings)
    assert want.create == ()
    reasons = {condition["type"]: condition["reason"] for condition in want.status["conditions"]}
    assert reasons["Failed"] == "NotImplemented"


@pytest.mark.parametrize("own", [True, False], ids=["an image of its own", "the image of all steps"])
def test_an_image_of_a_method_is_pulled_with_the_secret_of_its_analysis(own: bool) -> None:
    image = {"host": "r.example.com", "name": "a/b", "digest": "sha256:" + "1" * 64}
    method = make_method(**({"analysisImage": image} if own else {}))
    analysis = make_analysis(method=method, secrets={"imagePull": "registry"})
    want = WORKFLOWS[ANALYSES].reconcile(analysis, Children(), datetime(2026, 1, 1, 1, tzinfo=UTC), SETTINGS)
    (job,) = (child for child in want.create if child["kind"] == "Job")
    pull = job["spec"]["template"]["spec"].get("imagePullSecrets")
    assert pull == ([{"name": "registry"}] if own else None)
