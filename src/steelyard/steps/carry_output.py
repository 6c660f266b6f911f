"""The step that carries what a training job has left behind into storage, with the SHA-256 of every file.

`python -m steelyard.steps.carry_output --config FILE`, in a Job of its own after the training job has succeeded: the
program that trained holds no credential of the storage. Its last words have the digests, which go to the job's status.
"""

import asyncio
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import orjson
from pydantic import BaseModel, ConfigDict, Field

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.fetch_volume import MOUNTS, find_folder
from steelyard.steps.progress import Progress
from steelyard.steps.volume import (
    PIECE,
    VolumeConflict,
    VolumeFile,
    VolumeManifest,
    check_path,
    keep,
    open_field_store,
    read_spec,
    seal,
)
from steelyard_evaluation.storage.store import Store
from steelyard_schema.resources import Storage
from steelyard_schema.steps import StepConfig

LINEAGE = "lineage.json"
"""File that a program may leave next to its output: digests of its `code` and its `data`, as an object of
texts.
"""
LINEAGE_BYTES = 64 << 10
CLAIMS = ("code", "data")
INVALID = "OutputInvalid"


class OutputSpec(BaseModel):
    """Configuration of the step: folder, destination, and the known lineage."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    path: str
    lineage: dict[str, str] = Field(default_factory=dict)
    storage: Storage = Field(default_factory=Storage)


@dataclass
class Carrying:
    """Progress of the carrying, in bytes."""

    total: int
    done: int = 0
    now: str = ""
    kept: list[VolumeFile] = field(default_factory=list)

    def measure(self) -> tuple[int, str]:
        return self.done, self.now


async def main(config: StepConfig, log: Log) -> str:
    spec = read_spec(config, OutputSpec)
    folder = find_folder(spec.path, json.loads(os.environ.get(MOUNTS, "{}")))
    output = open_field_store(spec.storage.output, "spec.storage.output")
    # Sorted, so that an attempt that comes again keeps the same files in the same order.
    paths = await asyncio.to_thread(lambda: sorted(files_below(folder)))
    if not paths:
        message = f"there is no file in {spec.path}: the program should write to the folder $STEELYARD_OUTPUT"
        raise StepFailed("OutputMissing", message, permanent=True)
    # What the platform knows wins over what the program claims.
    source = {**claims(folder), **spec.lineage}
    carrying = Carrying(sum((folder / path).stat().st_size for path in paths))
    progress = Progress(output, "bytes", carrying.total)
    try:
        async with progress.report_regularly(carrying.measure):
            await _carry(folder, paths, output, carrying)
        await seal(output, VolumeManifest(source=source, files=carrying.kept))
    # An earlier attempt kept other bytes under this path: the folder has changed since, so neither can be called the
    # output.
    except VolumeConflict as error:
        raise StepFailed(INVALID, str(error), permanent=True) from error
    await progress.report(carrying.total, "complete", last=True)
    log.info("the output is kept", files=len(carrying.kept), bytes=carrying.done)
    return last_words(carrying.kept, source)


async def _carry(folder: Path, paths: Sequence[str], output: Store, carrying: Carrying) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        local = Path(scratch) / "file"
        for path in paths:
            carrying.now = path
            await asyncio.to_thread(copy, folder, path, local)
            carrying.kept.append(kept := await keep(output, path, local))
            carrying.done += kept.size


def files_below(folder: Path) -> Iterator[str]:
    """Every file's path below the folder. Raises StepFailed for a path that is neither a file nor a folder."""
    if not folder.is_dir():
        raise StepFailed("OutputMissing", f"there is no folder {folder}", permanent=True)
    for where, folders, names in os.walk(folder, onerror=_unread):
        # os.walk does not enter links to folders, and lists them among the folders: they would be left out silently.
        links = [name for name in folders if (Path(where) / name).is_symlink()]
        for name in (*links, *names):
            path = Path(where) / name
            relative = str(path.relative_to(folder))
            if not path.is_file():
                raise StepFailed(INVALID, f"{relative} is neither a file nor a folder", permanent=True)
            yield check_path(relative, "a file of the output")


def _unread(error: OSError) -> None:
    """A folder that may not be read does not count as empty."""
    raise _not_readable(Path(str(error.filename)), str(error.filename), error) from error


def _not_readable(path: Path, name: str, error: OSError) -> StepFailed:
    """Names the file, whose it is, and who would have to read it."""
    if not isinstance(error, PermissionError):
        return StepFailed(INVALID, f"{name} cannot be read: {error.strerror}", permanent=True)
    try:
        status = path.lstat()
        whose = f"it belongs to user {status.st_uid} and group {status.st_gid}, mode {stat.S_IMODE(status.st_mode):04o}"
    except OSError:
        whose = "nor looked at"
    return StepFailed(
        INVALID,
        f"{name} may not be read by user {os.geteuid()}: {whose}; the program should leave its output readable to "
        "others, or the job's template should say as whom it runs (securityContext.runAsUser)",
        permanent=True,
    )


def copy(folder: Path, path: str, local: Path) -> None:
    """One file of the output, read once: the digested and the kept bytes are the same."""
    with inside(folder, path) as source, local.open("wb") as target:
        shutil.copyfileobj(source, target, PIECE)


@contextmanager
def inside(folder: Path, path: str) -> Iterator[BinaryIO]:
    """A file of the output, open. Raises StepFailed unless it is a plain file that lies there.

    The folder is the user's: a link may lead anywhere, and may be put there at any moment, so what counts is the file
    that was really opened.
    """
    with os.fdopen(_open(folder, path), "rb") as source:
        # The path of what was opened, not of what was asked: a link that is swapped after a check would pass
        # it.
        real = Path(os.readlink(f"/proc/self/fd/{source.fileno()}"))
        if not real.is_relative_to(folder.resolve()):
            raise StepFailed(INVALID, f"{path} is a link that leads out of the output", permanent=True)
        if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            raise StepFailed(INVALID, f"{path} is neither a file nor a folder", permanent=True)
        yield source


def _open(folder: Path, path: str) -> int:
    try:
        # Without O_NONBLOCK, a pipe in the user's folder would hold the step for ever.
        return os.open(folder / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise _not_readable(folder / path, path, error) from error


def claims(folder: Path) -> dict[str, str]:
    """Return the program's own claims about its code and its data, in `lineage.json`. They are its word, not
    our measurement.
    """
    if not (folder / LINEAGE).is_file():
        return {}
    with inside(folder, LINEAGE) as file:
        # The file is the user's, and may have any size.
        text = file.read(LINEAGE_BYTES)
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise StepFailed(INVALID, f"{LINEAGE} is not JSON: {error}", permanent=True) from error
    if not isinstance(said, dict):
        message = f"{LINEAGE} should be an object such as {{'data': 'sha256:…'}}"
        raise StepFailed(INVALID, message, permanent=True)
    # Its message goes into a status of at most 4 KiB, along with the digests.
    return {name: str(said[name])[:256] for name in CLAIMS if name in said}


def digest_files(files: Sequence[VolumeFile]) -> str:
    """One digest of many files: that of the lines that `sha256sum` prints for them, in the order of their paths."""
    # Anyone who has the files can compute it by `sha256sum` alone.
    lines = "".join(f"{file.sha256}  {file.path}\n" for file in sorted(files, key=lambda file: file.path))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def last_words(files: Sequence[VolumeFile], source: dict[str, str]) -> str:
    """Return the message for the job's status: sizes, and the digests of output, code and data."""
    claimed = {name: source[name] for name in CLAIMS if name in source}
    size = sum(file.size for file in files)
    return json.dumps({"files": len(files), "bytes": size, "output": digest_files(files), **claimed})


if __name__ == "__main__":
    run_step(main, "carry_output")
