"""Sources of models: a listing of files, each with its known facts and a way to get it onto local disk.

`fetch_model` keeps them one after the other, so that local disk holds one file at a time.
"""

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.steps.common import StepFailed
from steelyard.steps.volume import OURS, check_path, input_store, read_carried_manifest
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import display_name
from steelyard_schema.data import File
from steelyard_schema.resources import ModelResourceSpec

FETCH_FAILED = "FetchFailed"


@dataclass(frozen=True)
class RemoteFile:
    """A file to fetch. Facts about its content that are known beforehand are checked by `check`."""

    path: str
    fetch: Callable[[Path], Awaitable[None]]
    size: int | None = None
    sha256: str | None = None
    md5: bytes | None = None

    def check(self, local: Path) -> None:
        size = local.stat().st_size
        if self.size is not None and size != self.size:
            raise self._differs(f"{size} bytes instead of {self.size}")
        if self.md5 is not None and _md5_digest(local) != self.md5:
            raise self._differs(f"its MD5 is {_text(_md5_digest(local))} instead of {_text(self.md5)}")
        if self.sha256 is not None and file_sha256(local) != self.sha256:
            raise self._differs(f"its SHA-256 is {file_sha256(local)} instead of {self.sha256}")

    def _differs(self, how: str) -> StepFailed:
        return StepFailed(
            FETCH_FAILED, f"{self.path} is not the file that was described: {how}", permanent=True
        )


async def list_uploaded(spec: ModelResourceSpec) -> list[RemoteFile]:
    """Files that lie in storage: those that the artifact lists, else those of its manifest, else all."""
    store = input_store(spec.storage.inputs, "source")

    def at(path: str, size: int, **known: Any) -> RemoteFile:
        async def fetch(local: Path) -> None:
            await store.download(path, local)

        return RemoteFile(path, fetch, size, **known)

    listed = spec.artifact.volume.files if spec.artifact.volume else []
    # What the request lists outranks what lies there: a user's MD5 is checked, and other files are left out.
    if listed:
        where = "spec.artifact.volume.files"
        return [
            at(check_path(file.path, f"{where}.{k}.path"), file.size, md5=md5_given(file, k))
            for k, file in enumerate(listed)
        ]
    if manifest := await read_carried_manifest(store):
        return [at(file.path, file.size, sha256=file.sha256) for file in manifest.files]
    files = [at(info.key, info.size) async for info in store.list() if not info.key.startswith(OURS)]
    if not files:  # nothing there yet: the upload may come later
        raise StepFailed("InputMissing", f"there is no file at {display_name(store.url)}", permanent=False)
    return files


def check_listed(spec: ModelResourceSpec, files: list[RemoteFile]) -> list[RemoteFile]:
    """Files of another source, held to what the artifact lists, where it lists any."""
    listed = spec.artifact.volume.files if spec.artifact.volume else []
    if not listed:
        return files
    by_path = {file.path: file for file in files}
    missing = [file.path for file in listed if file.path not in by_path]
    if missing:
        raise StepFailed(FETCH_FAILED, f"the source has no {', '.join(missing)}", permanent=True)
    return [
        RemoteFile(f.path, by_path[f.path].fetch, f.size, by_path[f.path].sha256, md5_given(f, k))
        for k, f in enumerate(listed)
    ]


def md5_given(file: File, number: int) -> bytes | None:
    if file.digest.md5 is None:
        return None
    field = f"spec.artifact.volume.files.{number}.digest.md5"
    try:
        digest = base64.b64decode(file.digest.md5, validate=True)
    except binascii.Error:
        digest = b""
    if len(digest) != 16:
        raise StepFailed("BadConfiguration", f"{field}: should be the base64 of 16 bytes", permanent=True)
    return digest


def _md5_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        # The published schema's digest is MD5; where FIPS forbids it, it is allowed for a checksum.
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
