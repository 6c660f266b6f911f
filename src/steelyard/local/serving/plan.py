"""The plan of one model server on this machine: its program, address, memory and command line."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.local.runners.environments import Environment, read
from steelyard.local.state import default_state_dir
from steelyard.runners.kind import GIB, ModelFiles, RunnerKind, Serving
from steelyard.runners.record import ServerRecord, server_record
from steelyard.runners.table import choose
from steelyard_common.errors import UsageError
from steelyard_common.ports import free_port, port_is_free

FIRST_PORT, PORTS = 23000, 6000
"""Ports below those that the kernel gives out by itself."""
MOST_CACHE = 4 * GIB
SHARE = 0.9
"""Share of the available memory that a server is planned for."""
_NOT_PASSED_ON = frozenset({"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "OPENAI_API_KEY", "VLLM_API_KEY"})
NVIDIA = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True)
class ServerPlan:
    """Decisions for the start of a server; another start does the same again."""

    kind: RunnerKind
    environment: Environment
    model: ModelFiles
    serving: Serving
    available: int
    """Bytes of memory that were available when the plan was made."""
    log: Path

    @property
    def command(self) -> list[str]:
        command, arguments = self.kind.command_line(self.serving)
        program = Path(self.environment.folder) / "bin" / command[0]
        return [str(program) if program.exists() else command[0], *command[1:], *arguments]

    @property
    def url(self) -> str:
        """Base URL of its API."""
        return f"http://{self.serving.host}:{self.serving.port}/v1"

    @property
    def variables(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
        path = f"{Path(self.environment.folder) / 'bin'}:{inherited.get('PATH', os.defpath)}"
        return {"PYTHONUNBUFFERED": "1", **self.kind.environment, **inherited, "PATH": path}

    @property
    def record(self) -> ServerRecord:
        """Facts about the server that its answers depend on."""
        environment = self.environment
        return server_record(
            self.kind,
            self.serving,
            version=environment.version,
            variant=environment.variant,
            lock=environment.lock,
            gpu_models=gpu_models(),
        )

    @property
    def memory_text(self) -> str:
        """Text of what it needs and what there is, in a line."""
        needed = self.kind.estimate_memory(self.serving)
        cache = self.kind.cache_bytes(self.serving)
        parts = (("weights", self.model.weights), ("cache", cache), ("program", self.kind.base_memory))
        text = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in parts)
        return f"needs about {needed / 1e9:.1f} GB of memory ({text}); {self.available / 1e9:.1f} GB are free"

    @property
    def fits(self) -> bool:
        """Return whether the memory suffices, as far as one knows; the memory of GPUs is not counted here."""
        return bool(self.serving.gpus) or self.kind.estimate_memory(self.serving) <= self.available


def plan_server(
    folder: Path, *, runner: str | None = None, name: str | None = None, gpus: int | None = None,
    arguments: tuple[str, ...] = (), environment: Mapping[str, str] = os.environ,
) -> ServerPlan:  # fmt: skip
    """Decide how the model in a folder is served. UsageError says why it cannot be, and what to do."""
    kind, model = choose(folder, runner)
    installed = read(kind)
    if installed is None:
        raise UsageError(
            f"{folder}: is served by {kind.title}, which is not installed: {kind.install_command}"
        )
    if gpus is None:
        gpus = int(installed.variant == "cuda")
    available = available_memory()
    port = usual_port(folder)
    serving = Serving(
        model=str(model.path.resolve()),
        name=name or model_name(folder),
        host="127.0.0.1",
        port=str(port if port_is_free(port) else free_port()),
        gpus=gpus,
        weights=model.weights,
        precision=model.precision,
        arguments=arguments,
    )
    if kind.sizes_cache and available:
        most = kind.base_memory + model.weights + MOST_CACHE
        serving = replace(serving, memory=min(int(available * SHARE), most))
    log = default_state_dir(environment) / "servers" / f"{serving.name}-{serving.port}.log"
    return ServerPlan(kind, installed, model, serving, available, log)


def model_name(folder: Path) -> str:
    """Name of a model by its folder or file."""
    path = folder.resolve()
    return path.stem if path.is_file() else path.name


def usual_port(folder: Path) -> int:
    """Return the port on which the model in a folder is served where no other process has it.

    A run belongs to the address that it asks: the next server of the same folder has to have the same one.
    """
    digest = hashlib.sha256(str(folder.resolve()).encode()).digest()
    return FIRST_PORT + int.from_bytes(digest[:4], "big") % PORTS


def usual_url(folder: Path) -> str:
    """Base URL of the model in a folder, by which a run knows it."""
    return f"http://127.0.0.1:{usual_port(folder)}/v1"


def gpu_models(folder: Path = NVIDIA) -> list[str]:
    """Return a name for each GPU in the order of the bus; none where NVIDIA's driver is not loaded."""
    models = []
    for path in sorted(folder.glob("*/information")):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        models += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return models


def available_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of memory that a further program can have in this control group; 0 where nothing can be read."""
    amounts = [_from_meminfo(proc / "meminfo"), _from_group(groups)]
    known = [amount for amount in amounts if amount is not None]
    return max(0, min(known, default=0))


def _from_meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _from_group(folder: Path) -> int | None:
    """Read the limit of a container, which /proc does not know."""
    try:
        limit, used = (folder / "memory.max").read_text(), (folder / "memory.current").read_text()
    except OSError:
        return None
    return None if limit.strip() == "max" else int(limit) - int(used)
