"""The container of a runner: its image, its command, its address and its share of the machine."""

import pytest

from steelyard.operator.runners import runner_container, runner_fault
from steelyard.operator.settings import Images, OperatorSettings
from steelyard.operator.simulation.resources import DATA_MOUNT, DIGEST, make_foreign_service, make_runner
from steelyard_common.types import Json

SETTINGS = OperatorSettings(storage="s3://bucket/steelyard")
OTHER = "sha256:" + "ab" * 32
MODEL = {"id": "a4", "account": "acme", "name": "llama", "artifact": {"kind": "Volume"}}


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


@pytest.mark.parametrize(
    ("host", "name", "digest", "pulled"),
    [
        ("localhost", "steelyard/runner-sklearn", DIGEST, "registry.example:5000/a/sklearn:1"),
        ("localhost", "steelyard/runner-sklearn", OTHER, f"registry.example:5000/a/sklearn@{OTHER}"),
        ("localhost", "steelyard/runner-other", DIGEST, f"localhost/steelyard/runner-other@{DIGEST}"),
        ("docker.io", "steelyard/runner-sklearn", OTHER, f"docker.io/steelyard/runner-sklearn@{OTHER}"),
    ],
)
def test_our_runners_are_pulled_by_the_names_of_the_settings(
    host: str, name: str, digest: str, pulled: str
) -> None:
    images = Images(runners={"runner-sklearn": "registry.example:5000/a/sklearn:1"})
    runner = make_runner("container") | {"image": {"host": host, "name": name, "digest": digest}}
    container = runner_container(
        make_foreign_service(runner=runner), SETTINGS.model_copy(update={"images": images})
    )
    assert container["image"] == pulled


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
