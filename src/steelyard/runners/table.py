"""The table of runner kinds. A further one is one more module, and its name in KINDS."""

from collections.abc import Mapping
from pathlib import Path

from steelyard.runners.kind import ModelFiles, Program, Requirements, RunnerKind
from steelyard.runners.llama_cpp import LLAMA_CPP
from steelyard.runners.transformers import TRANSFORMERS
from steelyard.runners.vllm import VLLM
from steelyard_common.errors import UsageError
from steelyard_common.types import Json, mapping

KINDS: Mapping[str, RunnerKind] = {kind.name: kind for kind in (VLLM, LLAMA_CPP, TRANSFORMERS)}
"""Runner kinds by name; the first that understands a folder serves it."""


DYFF_AUDIT = Program(
    name="dyff-audit",
    title="dyff-audit",
    serves="methods and rubrics that import dyff.audit",
    package="dyff-audit",
    module="dyff.audit",
    environments={"cpu": Requirements("dyff-audit.txt", 600_000_000)},
)
"""The environment of methods, whose image is that of the platform's own steps."""
PROGRAMS: Mapping[str, Program] = {**KINDS, DYFF_AUDIT.name: DYFF_AUDIT}
"""Programs that can be installed, by name."""


def program_named(name: str) -> Program:
    """Return the program of this name. Raises UsageError."""
    if name not in PROGRAMS:
        raise UsageError(f"{name}: there is no such runner; there are {', '.join(PROGRAMS)}")
    return PROGRAMS[name]


def kind_named(name: str) -> RunnerKind:
    """Return the kind of this name. Raises UsageError."""
    if name not in KINDS:
        raise UsageError(f"{name}: there is no such runner; there are {', '.join(KINDS)}")
    return KINDS[name]


def kind_of_image(name: str) -> RunnerKind | None:
    """Return the kind whose image this is, by its name with or without the host `localhost`."""
    name = name.removeprefix("localhost/")
    return next((kind for kind in KINDS.values() if kind.image == name), None)


def kind_of_runner(runner: Json) -> RunnerKind | None:
    """Return the kind of a service's runner; None for a program that brings its own command."""
    if by_kind := next((kind for kind in KINDS.values() if kind.kind == runner["kind"] != "container"), None):
        return by_kind
    image = mapping(runner, "image")
    if runner["kind"] != "container" or image.get("host") != "localhost" or runner.get("command"):
        return None
    return kind_of_image(image["name"])


def choose(path: Path, name: str | None = None) -> tuple[RunnerKind, ModelFiles]:
    """Return the kind that serves the model at a path, and the model's files. UsageError names the places that were
    searched."""
    if not path.exists():
        raise UsageError(f"{path}: there is no such folder or file")
    kinds = [kind_named(name)] if name else list(KINDS.values())
    for kind in kinds:
        if model := kind.find_model(path):
            return kind, model
    looked_for: dict[str, str] = {}
    for kind in kinds:
        looked_for.setdefault(kind.looked_for, f"{kind.looked_for} ({kind.name})")
    what = ", or ".join(looked_for.values())
    inside = sorted(file.name for file in path.iterdir())[:5] if path.is_dir() else []
    holds = f"it holds {', '.join(inside)}" if inside else "it is a file" if path.is_file() else "it is empty"
    raise UsageError(f"{path}: holds no model that can be served: looked for {what}; {holds}")
