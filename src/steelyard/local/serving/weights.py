"""The files of a model with their digests, for the record of a run."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from steelyard.runners.kind import ModelFiles
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.served import model_volume
from steelyard_evaluation.storage.digest import sha256_of_all
from steelyard_evaluation.storage.digest_cache import DigestCache
from steelyard_schema.paths import BadFolder, files_below


def describe_volume(
    model: ModelFiles, name: str, stopped: Callable[[], bool] = lambda: False
) -> dict[str, JsonValue]:
    """Return a model's volume: every file that its server may read, with size and SHA-256. Raises InterruptedError."""
    if model.parts:
        paths = {path.name: path for path in model.parts}
    else:
        try:
            paths = {path.relative_to(model.path).as_posix(): path for path in files_below(model.path)}
        except BadFolder as error:
            raise UsageError(str(error)) from error
    digests = sha256_of_all(list(paths.values()), DigestCache(cache_file()), stopped)
    return model_volume(
        name,
        [
            {"path": path, "size": paths[path].stat().st_size, "sha256": digest}
            for path, digest in zip(paths, digests, strict=True)
        ],
    )


def cache_file(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/steelyard/digests.json`, by default below `~/.cache`."""
    base = environment.get("XDG_CACHE_HOME") or ""
    folder = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return folder / "steelyard" / "digests.json"
