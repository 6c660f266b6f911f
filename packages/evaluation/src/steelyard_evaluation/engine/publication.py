"""Writes the output of an attempt to its store, so that no attempt changes what another one has published.

Each attempt writes below a name of its own, `.steelyard/attempts/<epoch>/`, and then the manifest, create-only: it says
whose files are published. Only these are copied to their places afterwards, by any attempt, as often as attempts are
killed. So an attempt that is suspended in the middle of a write cannot write anything else there, however late it goes
on. What is left of attempts is removed when all files are in their places, since no attempt can be published any more.

Analyses, reports and audits are published in this way.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict

from steelyard_evaluation.engine.epoch import Epoch, highest_epoch
from steelyard_evaluation.engine.errors import EvaluationFailed, Fenced
from steelyard_evaluation.storage.checked import check_object
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store
from steelyard_schema.names import MANIFEST, OWN_RECORDS
from steelyard_schema.steps import epoch_resource

ATTEMPTS = f"{OWN_RECORDS}attempts/"
"""Folder of the files of attempts, each below its epoch."""
_PAGES = frozenset({"index.html", "report.html"})
"""Pages, which come last: where one is, everything else is."""
_FILES_PER_CHECK = 16
"""Number of files that are written between two checks whether a later attempt has begun."""


class PublishedFile(BaseModel):
    """One file of the output: its path and its content."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    path: str
    size: int
    sha256: str


class OutputManifest(BaseModel):
    """All files of the output, sorted by path, and the attempt that made them."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schemaVersion: str = "0.1"  # noqa: N815 - as everywhere in our JSON
    analysis: str | None = None
    report: str | None = None
    audit: str | None = None
    epoch: str
    rows: int | None = None
    """Rows of a measurement or of a report's scores."""
    files: list[PublishedFile]
    records: list[PublishedFile] | None = None
    """The platform's own records of the output, such as scores; None without any. They are not among its files."""


@dataclass(frozen=True)
class Publication:
    """The output of one attempt."""

    epoch: Epoch
    manifest: str = MANIFEST
    """Key of the manifest, which all attempts at the same output share."""
    earlier: tuple[str, ...] = ()
    """Beginnings of paths of files that an earlier output may have left: those that the manifest does not name go."""

    async def read_manifest(self) -> OutputManifest | None:
        """Return the manifest of the attempt that has published its output; None if none has."""
        try:
            return OutputManifest.model_validate_json(await self.epoch.store.get(self.manifest))
        except ObjectMissing:
            return None

    async def complete_earlier(self) -> OutputManifest | None:
        """Complete what an earlier attempt has published, and return its manifest; None if none has."""
        manifest = await self.read_manifest()
        if manifest is not None:
            await self.complete(manifest)
        return manifest

    async def publish(
        self,
        files: Mapping[str, Path | bytes],
        records: Mapping[str, bytes],
        rows: int | None = None,
        **resource: str,
    ) -> OutputManifest:
        """Write all files and the manifest, and bring the files to their places; `resource` is an id by its kind.

        The manifest names the records, which are the platform's own, apart from the files.

        Raises Fenced where a later attempt has begun, and EvaluationFailed where another one has published.
        """
        store, place = self.epoch.store, _place(self.epoch.name)
        entries = await asyncio.to_thread(_entries, files)
        for path, content in records.items():
            await self.epoch.check()
            await store.put(place + path, content)
        for number, path in enumerate(sorted(files)):
            if number % _FILES_PER_CHECK == 0:
                await self.epoch.check()
            await _put(store, place + path, files[path])
        own = _entries(records) or None
        fields = {"epoch": self.epoch.name, "rows": rows, "files": entries, "records": own, **resource}
        manifest = OutputManifest.model_validate(fields)
        await self.epoch.check()
        try:
            await store.create(self.manifest, orjson.dumps(manifest.model_dump(exclude_none=True)))
        except ObjectExists as error:
            message = "another attempt has published its output"
            raise EvaluationFailed("Superseded", message, permanent=False) from error
        await self.complete(manifest)
        return manifest

    async def complete(self, manifest: OutputManifest) -> None:
        """Bring the published files to their places, and remove what is left of attempts.

        Any attempt may do so at any time, also several at once. Raises Fenced where another resource, which was made
        later, has begun to write to the same output.
        """
        store, place = self.epoch.store, _place(manifest.epoch)
        # An earlier resource at the same output may still copy: what it has not copied by now, it finds missing.
        await self._remove_attempts(lambda resource: resource < epoch_resource(manifest.epoch))
        digests = {file.path: file.sha256 for file in (*manifest.files, *(manifest.records or ()))}
        for prefix in self.earlier:
            for path in [info.key async for info in store.list(prefix) if info.key not in digests]:
                await self._check_resource()
                await store.delete(path)
        await self._check_resource()
        paths = [info.key.removeprefix(place) async for info in store.list(place)]
        for path in sorted(paths, key=lambda path: (path in _PAGES, path)):
            # A missing one was removed by another attempt, which has brought all files to their places.
            with suppress(ObjectMissing):
                await check_object(store, place + path, digests.get(path))
                await store.copy(place + path, path)
        # Those of a later resource stay: it has yet to publish them.
        await self._remove_attempts(lambda resource: resource <= epoch_resource(self.epoch.name))

    async def _check_resource(self) -> None:
        highest = await highest_epoch(self.epoch.store)
        if highest is not None and epoch_resource(highest) > epoch_resource(self.epoch.name):
            raise Fenced(self.epoch.name, highest)

    async def _remove_attempts(self, chosen: Callable[[str], bool]) -> None:
        """Remove the files of the attempts of chosen resources."""
        store = self.epoch.store
        for key in [info.key async for info in store.list(ATTEMPTS)]:
            if chosen(epoch_resource(key.removeprefix(ATTEMPTS).partition("/")[0])):
                await store.delete(key)


async def _put(store: Store, key: str, content: Path | bytes) -> None:
    if isinstance(content, Path):
        await store.put_file(key, content)
    else:
        await store.put(key, content)


def _entries(files: Mapping[str, Path | bytes]) -> list[PublishedFile]:
    return [_entry(path, content) for path, content in sorted(files.items())]


def _entry(path: str, content: Path | bytes) -> PublishedFile:
    if isinstance(content, Path):
        return PublishedFile(path=path, size=content.stat().st_size, sha256=file_sha256(content))
    return PublishedFile(path=path, size=len(content), sha256=hashlib.sha256(content).hexdigest())


def _place(epoch: str) -> str:
    """Return the prefix of the files of an attempt."""
    return f"{ATTEMPTS}{epoch}/"
