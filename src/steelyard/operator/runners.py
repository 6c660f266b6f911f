"""The container that serves a model, from a runner in a manifest: image, command, arguments, readiness.

The image belongs to whoever the command belongs to. A mock runs a program of ours, so it runs in our image, whatever
image its runner names (clients of the published API have to name one). vLLM's command runs in the runner's image,
which has to contain vLLM.
"""

from dataclasses import dataclass

from steelyard.operator.pods import CONTAINER_SECURITY, POD_IP
from steelyard.operator.settings import OperatorSettings
from steelyard.types import Json

PORT = 8000
SERVED = frozenset({"container", "mock", "vllm"})
VLLM_MODEL = "/dyff/mnt/volume"


@dataclass(frozen=True)
class RunnerFault:
    """Reason and message for a runner that cannot be started."""

    reason: str
    message: str


def runner_fault(service: Json) -> RunnerFault | None:
    """Find what is wrong with a service's runner; None if it can be started."""
    runner = service.get("runner")
    if not runner:
        return RunnerFault("BadImage", "runner: is missing, and there is nothing else to start")
    if runner["kind"] not in SERVED:
        served = ", ".join(sorted(SERVED))
        return RunnerFault(
            "NotImplemented", f"runner.kind: {runner['kind']} is not implemented; there are {served}"
        )
    if runner["kind"] != "mock" and runner.get("imageRef"):
        return RunnerFault(
            "BadImage", "runner.imageRef: is resolved by the platform; a manifest names an image"
        )
    if runner.get("nodes", 1) != 1:
        return RunnerFault(
            "NotImplemented", f"runner.nodes: {runner['nodes']} is not implemented; there is 1"
        )
    if runner["kind"] != "mock" and not runner.get("image"):
        return RunnerFault("BadImage", "runner.image: is missing")
    return None


def runner_container(service: Json, settings: OperatorSettings) -> Json:
    """Make the container `runner` of a session's Pod, which listens on the Pod's own address."""
    runner = service["runner"]
    container: Json = {
        "name": "runner",
        "image": _image(runner, settings),
        "imagePullPolicy": "IfNotPresent",
        "env": [
            POD_IP,
            {"name": "HOST", "value": "$(POD_IP)"},
            {"name": "PORT", "value": str(PORT)},
            {"name": "TMPDIR", "value": "/tmp"},
            {"name": "HOME", "value": "/tmp"},
            *({"name": variable["name"], "value": variable["value"]} for variable in runner.get("env") or ()),
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/health" if runner["kind"] == "vllm" else "/ready", "port": PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "resources": _resources(runner, settings),
        "securityContext": CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounts(runner)],
    }
    command, args = _command(service)
    # The folder lies in the image that the runner names; our own image, which a mock runs in, need not have it.
    folder = runner.get("workingDir") if runner["kind"] != "mock" else None
    optional = (("command", command), ("args", args), ("workingDir", folder))
    return container | {name: value for name, value in optional if value}


def data_mounts(runner: Json) -> list[Json]:
    return [mount for mount in runner.get("volumeMounts") or () if mount["kind"] == "Data"]


def mounts(runner: Json) -> list[Json]:
    return [
        {"name": f"volume-{number}", "mountPath": mount["mountPath"]}
        for number, mount in enumerate(runner.get("volumeMounts") or ())
    ]


def volumes(runner: Json) -> list[Json]:
    """Make the volumes of a runner. Those of data mounts are filled from storage by the init container."""
    return [
        {"name": f"volume-{number}", "emptyDir": _empty_dir(mount)}
        for number, mount in enumerate(runner.get("volumeMounts") or ())
    ]


def vllm_command(service: Json) -> tuple[list[str], list[str]]:
    """Make command and arguments of vLLM's OpenAI server.

    The model comes from its mount, or by the name that the model's cache has. The user's arguments are last, so that
    they win.
    """
    runner = service["runner"]
    mounted = data_mounts(runner)
    cache = ((service.get("model") or {}).get("artifact") or {}).get("huggingFaceCache") or {}
    model = mounted[0]["mountPath"] if mounted else cache.get("repoID", VLLM_MODEL)
    name = (service.get("model") or {}).get("name") or service["name"]
    gpus = ((runner.get("accelerator") or {}).get("gpu") or {}).get("count", 1)
    parallel = ["--tensor-parallel-size", str(gpus)] if gpus > 1 else []
    fixed = [
        "--model",
        model,
        "--served-model-name",
        name,
        "--host",
        "$(POD_IP)",
        "--port",
        str(PORT),
        # Published clients ask vLLM below /openai; paths without the prefix work as well.
        "--root-path",
        "/openai",
        *parallel,
    ]
    return ["python3", "-m", "vllm.entrypoints.openai.api_server"], [*fixed, *(runner.get("args") or ())]


def _command(service: Json) -> tuple[list[str], list[str]]:
    runner = service["runner"]
    match runner["kind"]:
        case "mock":
            listen = ["--host", "$(POD_IP)", "--port", str(PORT)]
            return ["python", "-m", "steelyard.steps.mock_inference_service"], [
                *listen,
                *(runner.get("args") or ()),
            ]
        case "vllm" if not runner.get("command"):
            return vllm_command(service)
        case _:
            return list(runner.get("command") or ()), list(runner.get("args") or ())


def _image(runner: Json, settings: OperatorSettings) -> str:
    if runner["kind"] == "mock":
        return settings.images.mock
    image = runner["image"]
    return f"{image['host']}/{image['name']}@{image['digest']}"


def _resources(runner: Json, settings: OperatorSettings) -> Json:
    """Make requests and limits. Memory is limited to its request; processors are not, so that idle ones are used."""
    requested = runner["resources"]
    gpu = (runner.get("accelerator") or {}).get("gpu")
    gpus = {gpu["hardwareTypes"][0].partition("/")[0] + "/gpu": str(gpu.get("count", 1))} if gpu else {}
    requests = {"cpu": requested.get("cpu") or "100m", "memory": requested.get("memory") or "256Mi"}
    limits = {"memory": requested.get("memory") or settings.step_resources.memory_limit}
    return {"requests": requests | gpus, "limits": limits | gpus}


def _empty_dir(mount: Json) -> Json:
    scratch = mount.get("scratch")
    return {"sizeLimit": scratch["capacity"]} if scratch else {}
