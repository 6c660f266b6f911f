"""The container that serves a model, from a runner in a manifest: image, command, arguments, readiness.

The image has the same owner as the command. A mock runs a program of ours, so it runs in our image, whatever
image its runner names (clients of the published API have to name one). A hosted model has an image of no content: its
name says that a program of ours asks a provider. The command of a runner kind, such as vLLM's, runs in the runner's
image, which has to contain it; `steelyard.runners` says what the kinds are.
"""

from dataclasses import dataclass

from steelyard.operator.pods import CONFIG_FILE, CONTAINER_SECURITY, POD_IP, image_name
from steelyard.operator.settings import OperatorSettings
from steelyard.runners.kind import RunnerKind, Serving
from steelyard.runners.table import kind_of_runner
from steelyard_common.types import Json, mapping, sequence
from steelyard_schema.hosted_model import HostedModelFault, is_hosted, read_hosted_model
from steelyard_schema.quantity import amount

PORT = 8000
SERVED = frozenset({"container", "mock", "vllm"})
MODEL_PATH = "/dyff/mnt/volume"
READY_PATH = "/ready"
"""Path of runners that bring their own command."""


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
    if is_hosted(runner):
        try:
            read_hosted_model(runner)
        except HostedModelFault as fault:
            return RunnerFault("BadRequest", f"runner.{fault}")
        return None
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
    kind = kind_of_runner(runner)
    own = kind.environment if kind else {}
    variables = [
        *own.items(),
        *((variable["name"], variable["value"]) for variable in sequence(runner, "env")),
    ]
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
            *({"name": name, "value": value} for name, value in variables),
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {
            "httpGet": {"path": kind.ready_path if kind else READY_PATH, "port": PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "resources": _resources(service, kind, settings),
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
    return [mount for mount in sequence(runner, "volumeMounts") if mount["kind"] == "Data"]


def mounts(runner: Json) -> list[Json]:
    return [
        {"name": f"volume-{number}", "mountPath": mount["mountPath"]}
        for number, mount in enumerate(sequence(runner, "volumeMounts"))
    ]


def volumes(runner: Json) -> list[Json]:
    """Make the volumes of a runner. Those of data mounts are filled from storage by the init container."""
    scratch = [mount.get("scratch") for mount in sequence(runner, "volumeMounts")]
    return [
        {"name": f"volume-{number}", "emptyDir": {"sizeLimit": folder["capacity"]} if folder else {}}
        for number, folder in enumerate(scratch)
    ]


def find_serving(service: Json) -> Serving:
    """Return what a service's runner serves, for the kinds that make their own command.

    The model comes from its mount, or by the name that the model's cache has.
    """
    runner, model = service["runner"], mapping(service, "model")
    mounted = data_mounts(runner)
    cache = mapping(model, "artifact", "huggingFaceCache")
    memory = runner["resources"].get("memory")
    stored = mapping(model, "resources").get("storage")
    return Serving(
        model=mounted[0]["mountPath"] if mounted else cache.get("repoID", MODEL_PATH),
        name=model.get("name") or service["name"],
        host="$(POD_IP)",
        port=str(PORT),
        memory=int(amount(memory)) if memory else None,
        gpus=_gpus(runner),
        weights=int(amount(stored)) if stored else 0,
        # Published clients ask vLLM below /openai; paths without the prefix work as well.
        root_path="/openai" if runner["kind"] == "vllm" else "",
        arguments=tuple(sequence(runner, "args")),
    )


def _gpus(runner: Json) -> int:
    gpu = mapping(runner, "accelerator").get("gpu")
    return int(gpu.get("count", 1)) if gpu else 0


def gpu_resource(hardware: str) -> str:
    """Return the resource that a type of hardware is counted as, as device plugins name them.

    A model of GPU (nvidia.com/gpu-t4) is a GPU of its vendor; an instance of MIG is a resource of its own.
    """
    vendor, _, name = hardware.partition("/")
    return hardware if name.startswith("mig-") else f"{vendor}/gpu"


def _command(service: Json) -> tuple[list[str], list[str]]:
    runner = service["runner"]
    listen = ["--host", "$(POD_IP)", "--port", str(PORT)]
    match runner["kind"]:
        case _ if is_hosted(runner):
            return ["python", "-m", "steelyard.steps.hosted_model"], ["--config", CONFIG_FILE, *listen]
        case "mock":
            return ["python", "-m", "steelyard.steps.mock_inference_service"], [
                *listen,
                *sequence(runner, "args"),
            ]
        case _ if (kind := kind_of_runner(runner)) and not runner.get("command"):
            return kind.command_line(find_serving(service))
        case _:
            return list(sequence(runner, "command")), list(sequence(runner, "args"))


def _image(runner: Json, settings: OperatorSettings) -> str:
    if runner["kind"] == "mock":
        return settings.images.mock
    if is_hosted(runner):
        return settings.images.steps
    return image_name(runner["image"], settings)


def _resources(service: Json, kind: RunnerKind | None, settings: OperatorSettings) -> Json:
    """Make requests and limits. Memory is limited to its request; processors are not, so that idle ones are used."""
    runner = service["runner"]
    requested = runner["resources"]
    gpu = mapping(runner, "accelerator").get("gpu")
    gpus = {gpu_resource(gpu["hardwareTypes"][0]): str(gpu.get("count", 1))} if gpu else {}
    # A model server that names no memory gets a place for what it is thought to need, and no limit.
    needed = str(kind.estimate_memory(find_serving(service))) if kind else None
    memory = requested.get("memory")
    requests = {"cpu": requested.get("cpu") or "100m", "memory": memory or needed or "256Mi"}
    most = memory or (None if kind else settings.step_resources.memory_limit)
    limits = {"memory": most} if most else {}
    return {"requests": requests | gpus, "limits": limits | gpus}
