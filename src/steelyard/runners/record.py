"""The record of a server that gave answers: its program and version, its arguments, its hardware."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard.runners.kind import RunnerKind, Serving, find_option, without_options
from steelyard.runners.table import kind_of_runner
from steelyard_common.types import Json, JsonValue, mapping, sequence

SCHEMA_VERSION = "0.1"
PLACE = ("--host", "--port", "--root-path", "--kv-cache-memory-bytes")
"""Options that say where a server runs and how much it takes at once. No answer depends on them."""
PRECISIONS = ("--dtype",)
"""Options that set the type of the numbers that the server computes with."""


@dataclass(frozen=True)
class ServerRecord:
    """Facts about one server; servers with equal facts are the same one for a report."""

    runner: str
    version: str
    """Version of the program; empty where it did not report one."""
    variant: str
    """cpu or cuda; empty where it is not known."""
    lock: str
    """SHA-256 of the lock that its environment was installed from; empty for an image."""
    arguments: tuple[str, ...]
    weights: str
    """Type of the numbers in the weights' files, such as bfloat16; empty where they do not say."""
    precision: str
    """Type of the numbers that it computes with: as its arguments say, else its own choice, `auto`."""
    gpus: int | None
    """Number of GPUs; None for a provider, which does not say what it computes with."""
    gpu_models: tuple[str, ...] = ()
    """Names of the GPUs of the machine, where they are known."""

    def json(self) -> Json:
        return {
            "schemaVersion": SCHEMA_VERSION,
            "runner": self.runner,
            "version": self.version,
            "variant": self.variant,
            "lock": self.lock,
            "arguments": list(self.arguments),
            "weights": self.weights,
            "precision": self.precision,
            "gpus": self.gpus,
            "gpuModels": list(self.gpu_models),
        }


def server_record(
    kind: RunnerKind,
    serving: Serving,
    *,
    version: str = "",
    variant: str = "",
    lock: str = "",
    gpu_models: Sequence[str] = (),
) -> ServerRecord:
    """Return the record of a server; the model stands in its arguments by name, since its digests say which it is."""
    _, arguments = kind.command_line(replace(serving, model=serving.name))
    said = [value for name in PRECISIONS if (value := find_option(arguments, name))]
    return ServerRecord(
        runner=kind.name,
        version=version,
        variant=variant,
        lock=lock,
        arguments=tuple(without_options(arguments, PLACE)),
        weights=serving.precision,
        precision=said[-1] if said else "auto",
        gpus=serving.gpus,
        gpu_models=tuple(gpu_models) if serving.gpus else (),
    )


def service_record(service: Json, *, version: str = "", weights: str = "") -> ServerRecord | None:
    """Return the record of a service's replicas; None for a program that brings its own command."""
    runner = mapping(service, "runner")
    kind = kind_of_runner(runner) if runner else None
    if kind is None:
        return None
    name = mapping(service, "model").get("name") or service["name"]
    gpu = mapping(runner, "accelerator").get("gpu")
    serving = Serving(
        model=name,
        name=name,
        host="",
        port="",
        gpus=int(gpu.get("count", 1)) if gpu else 0,
        arguments=tuple(sequence(runner, "args")),
    )
    return replace(server_record(kind, serving, version=version), weights=weights)


def provider_record(host: str, model: str, snapshot: str) -> ServerRecord:
    """Return the record of a provider's model, whose version is the snapshot that its answers name."""
    return ServerRecord(
        runner=host,
        version=snapshot,
        variant="",
        lock="",
        arguments=("--model", model),
        weights="",
        precision="auto",
        gpus=None,
    )


def version_in(answer: JsonValue) -> str:
    """Return the version that a server says at its `version_path`: by itself, or in its OpenAPI document."""
    document = answer if isinstance(answer, dict) else {}
    info = document.get("info")
    version = document.get("version") or (info.get("version") if isinstance(info, dict) else None)
    return version if isinstance(version, str) else ""
