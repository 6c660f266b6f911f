"""The objects that the operator makes: names that fit, Pods that are hardened, commands that listen in one place."""

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from steelyard.kube.resource import ANALYSES
from steelyard.operator.children import Children
from steelyard.operator.jobs import Step, job_and_config, step_config
from steelyard.operator.names import CHILD_LIMIT, child_name
from steelyard.operator.runners import runner_container, runner_fault
from steelyard.operator.session_objects import session_objects
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import (
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
from steelyard.schema.bounds import ENTITY_BYTES
from steelyard.schema.egress import EgressPolicy, EgressSettings
from steelyard.schema.resources import InferenceSessionResourceSpec
from steelyard.schema.steps import StepConfig
from steelyard.types import Json

SETTINGS = OperatorSettings(storage="s3://bucket/steelyard")
MODEL = {"id": "a4", "account": "acme", "name": "llama", "artifact": {"kind": "Volume"}}
DATA_MOUNT = {
    "kind": "Data",
    "name": "model",
    "mountPath": "/models/x",
    "data": {"source": {"kind": "Model", "id": "a4"}},
}


@pytest.mark.parametrize(
    ("name", "suffix", "expected"),
    [
        ("evaluation-a1", "-client-a1", "evaluation-a1-client-a1"),
        ("e" * 47, "-client-a1", "e" * 47 + "-client-a1"),
    ],
)
def test_a_name_that_fits_stays(name: str, suffix: str, expected: str) -> None:
    assert child_name(name, suffix) == expected


@pytest.mark.parametrize("filling", ["ä", "語", '"', "\x01", [0]])
def test_the_configuration_of_the_largest_entity_fits_into_a_config_map(filling: str | list[int]) -> None:
    size = len(orjson.dumps(filling * 10)) // 10
    service = make_foreign_service(interface={"filling": filling * (ENTITY_BYTES // size)})
    config_map, *_ = session_objects(make_session(inferenceService=service), SETTINGS)
    content = config_map["data"]["config.json"]
    assert len(content.encode()) <= 1 << 20, "Kubernetes' limit of a ConfigMap's data"
    assert len(orjson.dumps(config_map)) < 1_500_000, "etcd's limit of an object"
    assert json.loads(content)["spec"]["inferenceService"] == service


@pytest.mark.parametrize("name", ["e" * 48, "e" * 253, "dotted.name", "9lives", "e" * 38 + "-" * 9 + "f"])
def test_a_name_that_does_not_fit_is_cut_and_stays_its_own(name: str) -> None:
    made = child_name(name, "-client-a1")
    assert len(made) <= CHILD_LIMIT
    assert made.endswith("-client-a1")
    assert made[0].isalpha()
    assert all(char.isalnum() or char == "-" for char in made)
    assert made != child_name(name + "x", "-client-a1")


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


def test_a_step_that_calls_addresses_outside_is_told_which() -> None:
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


@pytest.mark.parametrize(
    "image",
    [
        {
            "image": {
                "host": "registry.gitlab.com",
                "name": "dyff/workflows/inferenceservice-mock",
                "digest": DIGEST,
            }
        },
        {"imageRef": {"kind": "OCIArtifact", "id": "a9"}},
        {},
    ],
    ids=["the published one's", "one of the platform's", "none"],
)
def test_a_mock_runs_in_our_image_whichever_it_names(image: Json) -> None:
    service = make_foreign_service(runner={**make_runner("mock"), **image})
    assert runner_fault(service) is None
    assert runner_container(service, SETTINGS)["image"] == SETTINGS.images.mock


@pytest.mark.parametrize("kind", ["container", "vllm"])
def test_another_runner_runs_in_the_image_that_it_names(kind: str) -> None:
    container = runner_container(make_foreign_service(runner=make_runner(kind)), SETTINGS)
    assert container["image"].endswith(f"@{DIGEST}")


def test_a_mock_listens_on_its_own_address_only() -> None:
    service = make_foreign_service(runner=make_runner("mock", args=["--latency", "0.05"]))
    container = runner_container(service, SETTINGS)
    assert container["args"] == ["--host", "$(POD_IP)", "--port", "8000", "--latency", "0.05"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"


def test_a_container_keeps_its_own_command() -> None:
    container = runner_container(make_foreign_service(), SETTINGS)
    assert "command" not in container
    assert "args" not in container


@pytest.mark.parametrize(("kind", "folder"), [("container", "/app"), ("vllm", "/app"), ("mock", None)])
def test_a_container_starts_in_the_folder_that_its_runner_names(kind: str, folder: str | None) -> None:
    service = make_foreign_service(runner={**make_runner(kind), "workingDir": "/app"})
    assert runner_container(service, SETTINGS).get("workingDir") == folder


def test_vllm_gets_its_model_its_address_and_the_users_arguments_last() -> None:
    gpu = {"kind": "GPU", "gpu": {"hardwareTypes": ["nvidia.com/gpu-a100"], "count": 2}}
    runner = make_runner("vllm", args=["--max-model-len", "4096"], accelerator=gpu, volumeMounts=[DATA_MOUNT])
    service = make_foreign_service(runner=runner, model=MODEL)
    container = runner_container(service, SETTINGS)
    assert container["command"] == ["vllm", "serve"]
    assert container["args"] == [
        *("/models/x", "--served-model-name", "llama", "--host", "$(POD_IP)", "--port", "8000"),
        *("--root-path", "/openai", "--tensor-parallel-size", "2", "--max-model-len", "4096"),
    ]
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"


def test_the_cache_on_processors_is_what_the_memory_leaves() -> None:
    resources = {"cpu": "1", "memory": "8Gi"}
    runner = make_runner("vllm", resources=resources, volumeMounts=[DATA_MOUNT])
    model = {**MODEL, "resources": {"storage": "1Gi"}}
    container = runner_container(make_foreign_service(runner=runner, model=model), SETTINGS)
    assert container["args"][-2:] == ["--kv-cache-memory-bytes", str(4 << 30)]
    assert container["resources"]["limits"] == {"memory": "8Gi"}
    runner = make_runner("vllm", resources={}, args=["--kv-cache-memory-bytes=1G"])
    container = runner_container(make_foreign_service(runner=runner), SETTINGS)
    assert "--kv-cache-memory-bytes" not in container["args"]
    assert int(container["resources"]["requests"]["memory"]) > 3 << 30
    assert container["resources"]["limits"] == {}


def test_a_runner_kind_is_known_by_its_image() -> None:
    image = {"host": "localhost", "name": "steelyard/runner-llama-cpp", "digest": DIGEST}
    runner = make_runner("container", image=image, volumeMounts=[DATA_MOUNT])
    container = runner_container(make_foreign_service(runner=runner, model=MODEL), SETTINGS)
    assert container["command"][0] == "python"
    assert container["args"][:4] == ["--model", "/models/x", "--model_alias", "llama"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/v1/models"


@pytest.mark.parametrize(
    ("runner", "reason", "field"),
    [
        (None, "BadImage", "runner:"),
        (make_runner("huggingface"), "NotImplemented", "runner.kind"),
        (make_runner(image=None, imageRef={"kind": "OCIArtifact", "id": "b"}), "BadImage", "runner.imageRef"),
        (make_runner(nodes=2), "NotImplemented", "runner.nodes"),
        (make_runner(image=None), "BadImage", "runner.image"),
    ],
)
def test_a_runner_that_cannot_be_started_says_which_field(
    runner: Json | None, reason: str, field: str
) -> None:
    fault = runner_fault(make_foreign_service(runner=runner))
    assert fault is not None
    assert fault.reason == reason
    assert fault.message.startswith(field)


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


@pytest.mark.parametrize(
    ("hardware", "resource"),
    [
        ("nvidia.com/gpu", "nvidia.com/gpu"),
        ("nvidia.com/gpu-t4", "nvidia.com/gpu"),
        ("nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("amd.com/mi300", "amd.com/gpu"),
    ],
)
def test_a_runner_asks_for_the_resource_that_its_hardware_is_counted_as(hardware: str, resource: str) -> None:
    gpu = {"kind": "GPU", "gpu": {"hardwareTypes": [hardware], "count": 2}}
    service = {"name": "s", "runner": make_runner("vllm", accelerator=gpu, volumeMounts=[DATA_MOUNT])}
    asked = runner_container(service, SETTINGS)["resources"]
    assert (asked["requests"][resource], asked["limits"][resource]) == ("2", "2")


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


def test_a_mirror_of_the_hub_is_told_to_the_steps_that_fetch_from_it() -> None:
    settings = SETTINGS.model_copy(update={"hub": "https://hub.example.org"})
    variable = {"name": "HF_ENDPOINT", "value": "https://hub.example.org"}
    for module, expected in (("fetch_model", True), ("run_report", False)):
        _, job = job_and_config(make_evaluation(), Step("run", module, 60), 1, 60, settings)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert (variable in container["env"]) is expected
    assert "HF_ENDPOINT" not in json.dumps(secret_job(source="a"))


@pytest.mark.parametrize("own", [None, {"host": "r.example.com", "name": "a/b", "tag": "1"}])
def test_an_analysis_runs_in_the_image_of_its_method_or_in_that_of_the_steps(own: Json | None) -> None:
    digest = "sha256:" + "1" * 64
    image = {"analysisImage": {**own, "digest": digest}} if own else {}
    analysis = make_analysis(method=make_method(**image))
    want = WORKFLOWS[ANALYSES].reconcile(analysis, Children(), datetime(2026, 1, 1, 1, tzinfo=UTC), SETTINGS)
    config, job = want.create
    assert job["metadata"]["name"] == "safetycase-a0-run-a1"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == (f"r.example.com/a/b@{digest}" if own else SETTINGS.images.steps)
    assert container["command"][:3] == ["python", "-m", "steelyard.steps.run_analysis"]
    spec = StepConfig.model_validate_json(config["data"]["config.json"]).spec
    assert spec["storage"]["output"] == f"{SETTINGS.storage}/safetycases/a0"


def test_an_image_of_a_method_gets_no_credentials_of_the_storage() -> None:
    image = {"host": "r.example.com", "name": "a/b", "digest": "sha256:" + "1" * 64}
    storage = {"inputs": {}, "output": "safetycases/a0", "secret": "storage"}
    analysis = make_analysis(method=make_method(analysisImage=image), storage=storage)
    want = WORKFLOWS[ANALYSES].reconcile(analysis, Children(), datetime(2026, 1, 1, 1, tzinfo=UTC), SETTINGS)
    assert want.create == ()
    reasons = {condition["type"]: condition["reason"] for condition in want.status["conditions"]}
    assert reasons["Failed"] == "NotImplemented"


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


HOSTED = {
    "kind": "container",
    "image": {"host": "localhost", "name": "steelyard/runner-hosted", "digest": DIGEST},
    "resources": {},
    "args": ["--base-url", "https://models.example/v1", "--model", "large", "--tokens-total", "500"],
}


def hosted_session(**fields: Any) -> Json:
    storage = {"inputs": {"spending": "inferenceservices/a2"}, "secret": "steelyard-storage"}
    return make_session(inferenceService=make_foreign_service(runner=HOSTED), storage=storage, **fields)


def test_a_hosted_model_is_asked_by_a_program_of_ours() -> None:
    settings = OperatorSettings(
        storage="s3://bucket/steelyard", egress=EgressSettings(services=("models.example",))
    )
    config_map, _, deployment = session_objects(hosted_session(secrets={"provider": "s-provider"}), settings)
    config = StepConfig.model_validate_json(config_map["data"]["config.json"])
    assert config.spec["storage"]["inputs"]["spending"] == "s3://bucket/steelyard/inferenceservices/a2"
    assert config.egress == EgressPolicy(hosts=("models.example",), setting="egress.services")
    pod = deployment["spec"]["template"]["spec"]
    runner, identity = pod["containers"]
    assert (runner["image"], runner["command"]) == (
        settings.images.steps,
        ["python", "-m", "steelyard.steps.hosted_model"],
    )
    # What the service says reaches the program by its configuration alone: arguments would be the user's.
    assert runner["args"] == [
        *("--config", "/etc/steelyard/config.json"),
        *("--host", "$(POD_IP)", "--port", "8000"),
    ]
    assert runner["envFrom"] == [{"secretRef": {"name": "steelyard-storage"}}]
    assert "envFrom" not in identity
    mounts = {mount["name"] for mount in runner["volumeMounts"]}
    assert mounts == {"config", "tmp", "secrets"}
    assert "secrets" not in json.dumps(identity)
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "secrets")
    (source,) = volume["projected"]["sources"]
    assert source["secret"] == {"name": "s-provider", "items": [{"key": "value", "path": "provider"}]}


def test_no_other_runner_gets_the_providers_key() -> None:
    session = make_session(secrets={"provider": "s-provider"})
    assert "s-provider" not in json.dumps(session_objects(session, SETTINGS)[2])


def test_a_hosted_model_without_a_key_has_no_volume_for_it() -> None:
    assert "secrets" not in json.dumps(session_objects(hosted_session(), SETTINGS)[2]["spec"]["template"])


def test_a_hosted_model_that_is_wrong_is_a_fault_of_its_service() -> None:
    assert runner_fault(make_foreign_service(runner=HOSTED)) is None
    fault = runner_fault(make_foreign_service(runner={**HOSTED, "args": ["--model", "large"]}))
    assert fault
    assert (fault.reason, fault.message) == ("BadRequest", "runner.args: --base-url: is missing")
    other = runner_fault(make_foreign_service(runner={**HOSTED, "command": ["sh"]}))
    assert other
    assert other.message.startswith("runner.command: a hosted model has none")
