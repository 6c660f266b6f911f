"""Files kept in storage with their digests: what `fetch_model` writes and `fetch_volume` reads.

A volume is a prefix that holds its files and `.steelyard/manifest.json`, which is written last.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from steelyard.steps.common import StepFailed, wait_for_room
from steelyard_evaluation.storage.checked import CheckedStore, compute_sha256, with_checks
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import (
    LONG_PATIENCE,
    BadLocation,
    ObjectExists,
    ObjectMissing,
    Store,
    check_key,
    display_name,
    open_store,
)
from steelyard_schema.faults import faults_text
from steelyard_schema.names import MANIFEST, OWN_LOGS, OWN_RECORDS
from steelyard_schema.steps import StepConfig

OURS = (OWN_RECORDS, OWN_LOGS)
"""Names of our own records and logs among a volume's files."""
PIECE = 4 << 20

PINNED = f"{OWN_RECORDS}version.json"
"""Object with the version that the first attempt has found."""

Spec = TypeVar("Spec", bound=BaseModel)


class VolumeFile(BaseModel):
    """One file: its path below the volume, and its content."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    path: str
    size: int
    sha256: str


class VolumeManifest(BaseModel):
    """All files of a volume, sorted by path, and where they came from."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schemaVersion: str = "0.1"  # noqa: N815 - as everywhere in our JSON
    source: dict[str, str]
    files: list[VolumeFile]


class VolumeConflict(Exception):
    """The volume already holds something else under this path."""


@dataclass(frozen=True)
class SourceVersion:
    """The version of a source that is fetched into a volume: a branch may move between two attempts."""

    store: Store

    async def find_version(self) -> str | None:
        """Return the version that an earlier attempt has found; None for the first."""
        try:
            return str(orjson.loads(await self.store.get(PINNED))["version"])
        except ObjectMissing:
            return None

    async def keep(self, version: str) -> str:
        """Return the version that counts: this one, or that of another attempt that came first."""
        try:
            await self.store.create(PINNED, orjson.dumps({"version": version}))
        except ObjectExists:
            # An attempt that was given up may still run: what it has found counts for this one too.
            return await self.find_version() or version
        return version


async def keep(store: Store, path: str, local: Path) -> VolumeFile:
    """Put a file into the volume, create-only; the same file from an earlier attempt is as good."""
    sha256, size = await asyncio.to_thread(lambda: (file_sha256(local), local.stat().st_size))
    try:
        await store.create_file(path, local)
    except ObjectExists as error:
        if await compute_sha256(store, path) != sha256:
            raise VolumeConflict(
                f"{display_name(store.url, path)} is there already, with other content"
            ) from error
    return VolumeFile(path=path, size=size, sha256=sha256)


async def seal(store: Store, manifest: BaseModel) -> None:
    """Write the manifest, last of all; an equal one is as good."""
    data = orjson.dumps(manifest.model_dump(), option=orjson.OPT_INDENT_2)
    try:
        await store.create(MANIFEST, data)
    except ObjectExists as error:
        if await store.get(MANIFEST) != data:
            raise VolumeConflict(f"{display_name(store.url)} already holds another set of files") from error


async def read_manifest(store: Store) -> VolumeManifest | None:
    """The volume's manifest; None for files that a person put there by hand."""
    try:
        return VolumeManifest.model_validate_json(await store.get(MANIFEST))
    except ObjectMissing:
        return None


async def read_carried_manifest(store: Store) -> VolumeManifest | None:
    """Return the manifest of files that one of our steps has stored; an upload's own has another form, and
    says less.
    """
    try:
        return await read_manifest(store)
    except ValidationError:
        return None


def read_spec(config: StepConfig, kind: type[Spec]) -> Spec:
    """The resource's spec of a step's configuration; what is wrong with it is said by field."""
    try:
        return kind.model_validate(config.spec)
    except ValidationError as error:
        raise StepFailed("BadConfiguration", faults_text(error, "spec.", kind), permanent=True) from error


def open_field_store(url: str | None, field: str) -> Store:
    """The store that a field of the configuration names."""
    if url is None:
        raise StepFailed("BadConfiguration", f"{field}: is missing", permanent=True)
    try:
        return open_store(url, wait_for_room, patience=LONG_PATIENCE)
    except BadLocation as error:
        raise StepFailed("BadConfiguration", f"{field}: {error}", permanent=True) from error


def input_store(inputs: Mapping[str, str], key: str) -> CheckedStore:
    """The store of an input: its bytes are compared with the digests of its manifest."""
    return with_checks(open_field_store(inputs.get(key), f"spec.storage.inputs.{key}"))


def check_path(path: str, field: str) -> str:
    """A path below a volume: relative, nothing that leads out of it or into our own folders."""
    try:
        check_key(path)
    except BadLocation as error:
        raise StepFailed("BadConfiguration", f"{field}: {error}", permanent=True) from error
    if path.startswith(OURS):
        where = path.partition("/")[0]
        message = f"{field}: {path!r} lies in {where}/, which is ours"
        raise StepFailed("BadConfiguration", message, permanent=True)
    return path
