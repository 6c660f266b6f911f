"""The objects that the operator makes: Jobs that say what their step needs, sessions, Pods that are hardened."""

import json
from datetime import UTC, datetime

import orjson
import pytest

from steelyard.operator.children import Children
from steelyard.operator.jobs import Step, job_and_config, step_config
from steelyard.operator.session_objects import session_objects
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import (
    DATA_MOUNT,
    DIGEST,
    make_analysis,
    make_evaluation,
    make_foreign_service,
    make_method,
    make_model,
    make_runner,
    make_session,
)
from steelyard.operator.workflow import WORKFLOWS
from steelyard.operator.workflows.evaluation import child_session, service_name
from steelyard_common.types import Json
from steelyard_kube.resource import ANALYSES
from steelyard_schema.bounds import ENTITY_BYTES
from steelyard_schema.egress import EgressPolicy, EgressSettings
from steelyard_schema.resources import InferenceSessionResourceSpec
from steelyard_schema.steps import StepConfig

SETTINGS = OperatorSettings(storage="s3://bucket/steelyard")


@pytest.mark.parametrize("filling", ["ä", "語", '"', "\x01", [0]])
def test_the_configuration_of_the_largest_entity_fits_into_a_config_map(filling: str | list[int]) -> None:
    size = len(orjson.dumps(filling * 10)) // 10
    service = make_foreign_service(interface={"filling": filling * (ENTITY_BYTES // size)})
    config_map, *_ = session_objects(make_session(inferenceService=service), SETTINGS)
    content = config_map["data"]["config.json"]
    assert len(content.encode()) <= 1 << 20, "Kubernetes' limit of a ConfigMap's data"
    assert len(orjson.dumps(config_map)) < 1_500_000, "etcd's limit of an object"
    assert json.loads(content)["spec"]["inferenceService"] == service


def made_job() -> tuple[Json, Json]:
    step = Step("client", "evaluation_client", 7200, "dns:s.default.svc:8000")
    return job_and_config(make_evaluation(), step, 2, 7100, SETTINGS)


def test_a_job_says_what_its_step_needs() -> None:
    config_map, job = made_job()
    config = StepConfig.model_validate_json(config_map["data"]["config.json"])
    assert config_map["metadata"]["name"] == job["metadata"]["name"] == "evaluation-a1-client-a2"
    assert (config.step, config.attempt, config.replicas) == (
        "evaluation_client",
        2,
        "dns:s.default.svc:8000",
    )
    assert config.epoch == "1767225600-uid-of-e-0002"
    assert config.spec["storage"]["output"] == "s3://bucket/steelyard/evaluations/a1"
    assert config.spec["storage"]["inputs"] == {"dataset": "s3://bucket/steelyard/datasets/a3"}
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["activeDeadlineSeconds"] == 7100


def test_a_step_that_calls_addresses_outside_gets_a_list_of_them() -> None:
    settings = SETTINGS.model_copy(
        update={"egress": EgressSettings(sources=("hub.example.org",), networks=("10.1.0.0/16",))}
    )
    assert step_config(make_model(), "fetch_model", settings).egress == EgressPolicy(
        hosts=("hub.example.org",), networks=("10.1.0.0/16",), setting="egress.sources"
    )
    # Any other step calls none, and an older image of it knows no such field.
    assert "egress" not in made_job()[0]["data"]["config.json"]


def test_a_step_knows_its_pods_uid() -> None:
    (step,) = made_job()[1]["spec"]["template"]["spec"]["containers"]
    sources = {variable["name"]: variable["valueFrom"] for variable in step["env"] if "valueFrom" in variable}
    assert sources["POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}


def pods() -> list[Json]:
    session = make_session(
        inferenceService=make_foreign_service(runner=make_runner(volumeMounts=[DATA_MOUNT]))
    )
    deployment = session_objects(session, SETTINGS)[2]
    return [made_job()[1]["spec"]["template"], deployment["spec"]["template"]]


@pytest.mark.parametrize("template", pods(), ids=["job", "session"])
def test_pods_are_hardened(template: Json) -> None:
    pod = template["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert container["resources"]["limits"]["memory"]


def test_a_session_is_a_config_map_a_headless_service_and_a_deployment() -> None:
    runner = make_runner(volumeMounts=[DATA_MOUNT])
    session = make_session(replicas=2, inferenceService=make_foreign_service(runner=runner))
    config_map, service, deployment = session_objects(session, SETTINGS)
    assert json.loads(config_map["data"]["config.json"])["step"] == "fetch_volume"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    pod = deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["replicas"] == 2
    assert [container["name"] for container in pod["initContainers"]] == ["fetch-volume"]
    mounted = [mount["mountPath"] for mount in pod["initContainers"][0]["volumeMounts"]]
    assert "/models/x" in mounted
    assert [container["name"] for container in pod["containers"]] == ["runner", "session"]
    assert pod["containers"][0]["image"] == f"localhost/steelyard/runner-sklearn@{DIGEST}"
    assert pod["containers"][1]["command"][-2:] == ["--session", "a1"]


def test_the_child_session_is_the_evaluations() -> None:
    evaluation = make_evaluation(
        inferenceSession={
            "replicas": 3,
            "expires": "2026-01-02T00:00:00Z",
            "inferenceService": make_foreign_service(),
        },
        storage={"inputs": {"dataset": "d", "model": "models/a4"}, "output": "o", "secret": "keys"},
    )
    session = child_session(evaluation)
    spec = InferenceSessionResourceSpec.parse(session["spec"])
    assert (spec.id, spec.replicas, spec.expires) == ("a1", 3, None)
    assert spec.storage.inputs == {"model": "models/a4"}
    assert spec.storage.secret == "keys"
    assert service_name(evaluation) == session["metadata"]["name"] == "evaluation-a1-session"
    assert service_name(make_evaluation(inferenceSessionReference="b2")) == "inferencesession-b2"


def test_the_steps_that_fetch_from_a_mirror_of_the_hub_get_its_address() -> None:
    settings = SETTINGS.model_copy(update={"hub": "https://hub.example.org"})
    variable = {"name": "HF_ENDPOINT", "value": "https://hub.example.org"}
    for module, expected in (("fetch_model", True), ("run_report", False)):
        _, job = job_and_config(make_evaluation(), Step("run", module, 60), 1, 60, settings)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert (variable in container["env"]) is expected
    _, job = job_and_config(make_evaluation(), Step("run", "fetch_model", 60), 1, 60, SETTINGS)
    assert "HF_ENDPOINT" not in json.dumps(job)


@pytest.mark.parametrize(
    ("own", "runs"),
    [
        (None, SETTINGS.images.steps),
        ({"host": "r.example.com", "name": "a/b", "tag": "1"}, f"r.example.com/a/b@sha256:{'1' * 64}"),
        ({"host": "localhost", "name": "steelyard/steps"}, SETTINGS.images.steps),
    ],
)
def test_an_analysis_runs_in_the_image_of_its_method_or_in_that_of_the_steps(
    own: Json | None, runs: str
) -> None:
    image = {"analysisImage": {**own, "digest": f"sha256:{'1' * 64}"}} if own else {}
    analysis = make_analysis(method=make_method(**image))
    want = WORKFLOWS[ANALYSES].reconcile(analysis, Children(), datetime(2026, 1, 1, 1, tzinfo=UTC), SETTINGS)
    config, job = want.create
    assert job["metadata"]["name"] == "safetycase-a0-run-a1"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == runs
    assert container["command"][:3] == ["python", "-m", "steelyard.steps.run_analysis"]
    spec = StepConfig.model_validate_json(config["data"]["config.json"]).spec
    assert spec["storage"]["output"] == f"{SETTINGS.storage}/safetycases/a0"
