"""Folders of weights as people download them, read without the libraries that made them."""

import json
from pathlib import Path

from steelyard.runners.kind import ModelFiles

CONFIG_BYTES = 1 << 20
"""Largest `config.json` that is read: whoever uploads a model may make it of any size."""


def safetensors_model(path: Path) -> ModelFiles | None:
    """Return a folder with `config.json` and at least one `.safetensors` file; None for anything else."""
    if not path.is_dir() or not (path / "config.json").is_file():
        return None
    weights = list(path.glob("*.safetensors"))
    if not weights:
        return None
    return ModelFiles(path, sum(file.stat().st_size for file in weights), _precision(path / "config.json"))


def _precision(config: Path) -> str:
    try:
        with config.open("rb") as file:
            return precision_in(file.read(CONFIG_BYTES + 1))
    except OSError:
        return ""


def precision_in(config: bytes) -> str:
    """Return the type of the weights' numbers that a `config.json` names; empty where it names none."""
    if len(config) > CONFIG_BYTES:
        return ""
    try:
        content = json.loads(config)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(content, dict):
        return ""
    said = content.get("dtype") or content.get("torch_dtype")
    return said if isinstance(said, str) else ""


def gguf_model(path: Path) -> ModelFiles | None:
    """Return a `.gguf` file, or the first one of a folder with the parts of one model; None where there is none."""
    if path.is_file():
        return ModelFiles(path, path.stat().st_size, parts=(path,)) if path.suffix == ".gguf" else None
    files = sorted(path.glob("*.gguf")) if path.is_dir() else []
    if not files:
        return None
    name = files[0].name.partition("-00001-of-")[0]
    parts = [file for file in files if file == files[0] or file.name.startswith(f"{name}-0")]
    return ModelFiles(files[0], sum(file.stat().st_size for file in parts), parts=tuple(parts))
