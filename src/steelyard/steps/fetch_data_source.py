"""The step that fetches the files of a data source into storage, once, with the SHA-256 of every file.

`python -m steelyard.steps.fetch_data_source --config FILE`, as the `<name>-run-aN` Job of a DataSource. Files are
written create-only and the manifest last, so that an attempt that was cut off is continued by the next: it fetches the
same version, and only the files that are not there yet.
"""

import asyncio
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from steelyard.egress.aiohttp_connector import make_guarded_session
from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.downloads import Downloads
from steelyard.steps.hub_datasets import describe_dataset, list_dataset
from steelyard.steps.progress import Progress
from steelyard.steps.secret_files import secret_value
from steelyard.steps.source_files import Listing, SourceFile, choose, digest_file, digest_object, fail
from steelyard.steps.volume import (
    SourceVersion,
    VolumeConflict,
    VolumeFile,
    VolumeManifest,
    check_path,
    keep,
    open_field_store,
    read_manifest,
    read_spec,
    seal,
)
from steelyard.steps.zenodo_records import list_record
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store
from steelyard_schema.bounds import ENTITY_BYTES
from steelyard_schema.egress import EgressPolicy
from steelyard_schema.names import SOURCE_CROISSANT
from steelyard_schema.resources import DataSourceResourceSpec
from steelyard_schema.source_addresses import HUB, HubDataset, SourceAddress, source_address
from steelyard_schema.steps import SourceLimits, StepConfig


async def main(config: StepConfig, log: Log) -> None:
    spec = read_spec(config, DataSourceResourceSpec)
    address, token = _address(spec), secret_value("source")
    if token is not None and not address.takes_token:
        message = f"secrets.source: a token is for the hub and for Zenodo, and not for {address.origin}"
        raise StepFailed("BadConfiguration", message, permanent=True)
    mirror = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    if mirror and isinstance(address, HubDataset) and address.origin == HUB:
        address = replace(address, origin=mirror)
    async with make_guarded_session(config.egress or EgressPolicy()) as session:
        downloads = Downloads(session, address.origin, token)
        await fetch(spec, address, downloads, log, config.limits or SourceLimits())


async def fetch(
    spec: DataSourceResourceSpec,
    address: SourceAddress,
    downloads: Downloads,
    log: Log,
    limits: SourceLimits,
) -> None:
    """Fetch the files of the version that the address names, unless an earlier attempt has ended with that."""
    output = open_field_store(spec.storage.output, "spec.storage.output")
    if await read_manifest(output) is not None:
        return
    listing = await _pin(output, address, downloads)
    files = choose(listing.files, spec.files)
    _check(spec, files, limits)
    fetched = sum(file.size or 0 for file in files)
    log.info("fetching", files=len(files), bytes=fetched, source=spec.source, version=listing.version)
    with tempfile.TemporaryDirectory() as folder:
        fetching = Fetching(output, downloads, Path(folder, "file"), limits.bytes)
        progress = Progress(output, "bytes", fetched)
        try:
            async with progress.report_regularly(fetching.measure):
                await _keep_description(output, address, downloads)
                kept = [await fetching.keep(file) for file in files]
            await seal(output, VolumeManifest(source=listing.origin, files=kept))
        except VolumeConflict as error:
            raise fail(str(error)) from error
        await progress.report(fetched, "complete", last=True)
    log.info("the data is kept", files=len(kept), bytes=sum(file.size for file in kept))


@dataclass
class Fetching:
    """Fetches one file after the other, so that local disk holds one at a time."""

    output: Store
    downloads: Downloads
    local: Path
    left: int
    """Bytes that may still be fetched."""
    done: int = 0
    now: str = ""

    def measure(self) -> tuple[int, str]:
        """Return the bytes that are kept, with those of the current file on local disk, and its name."""
        try:
            return self.done + self.local.stat().st_size, self.now
        except OSError:
            return self.done, self.now

    async def keep(self, file: SourceFile) -> VolumeFile:
        """Return the file as it lies in storage, where an earlier attempt may have put it."""
        self.now = file.path
        kept = await self._find_earlier(file) or await self._fetch(file)
        self.done += kept.size
        self.left -= kept.size
        return kept

    async def _find_earlier(self, file: SourceFile) -> VolumeFile | None:
        if not file.is_digested:
            return None
        try:
            size = (await self.output.head(file.path)).size
        except ObjectMissing:
            return None
        digests = await digest_object(self.output, file.path, size)
        if fault := file.fault(size, digests):
            raise fail(f"{file.path} was kept by an earlier attempt and is not the source's: {fault}")
        return VolumeFile(path=file.path, size=size, sha256=digests.sha256)

    async def _fetch(self, file: SourceFile) -> VolumeFile:
        most = self.left if file.size is None else min(self.left, file.size)
        await self.downloads.fetch(file.url, self.local, most)
        digests = await asyncio.to_thread(digest_file, self.local)
        # Before it is kept: files in storage are create-only, so a wrong one would stay.
        if fault := file.fault(self.local.stat().st_size, digests):
            raise fail(f"{file.path} is not the file that the source describes: {fault}")
        kept = await keep(self.output, file.path, self.local)
        self.local.unlink()
        return kept


async def _pin(output: Store, address: SourceAddress, downloads: Downloads) -> Listing:
    """Return the listing of the version that the first attempt found."""
    pinned = SourceVersion(output)
    if (version := await pinned.find_version()) is not None:
        return await _list(_at(address, version), address, downloads)
    listing = await _list(address, address, downloads)
    if (version := await pinned.keep(listing.version)) != listing.version:
        return await _list(_at(address, version), address, downloads)
    return listing


async def _keep_description(output: Store, address: SourceAddress, downloads: Downloads) -> None:
    """Keep the Croissant file that the hub writes about a dataset, if it does; it is no reason to fail."""
    if not isinstance(address, HubDataset):
        return
    with suppress(StepFailed):
        content = orjson.dumps(await describe_dataset(address, downloads))
        if len(content) <= ENTITY_BYTES:
            # Create-only, as the files are: the hub may have changed it since the first attempt.
            with suppress(ObjectExists):
                await output.create(SOURCE_CROISSANT, content)


def _at(address: SourceAddress, version: str) -> SourceAddress:
    if isinstance(address, HubDataset):
        return replace(address, revision=version)
    return replace(address, record=version)


async def _list(address: SourceAddress, asked: SourceAddress, downloads: Downloads) -> Listing:
    """Return the files at an address, with the origin as the user named it."""
    if isinstance(address, HubDataset):
        listing = await list_dataset(address, downloads)
        assert isinstance(asked, HubDataset)
        return replace(listing, origin={**listing.origin, "revision": asked.revision})
    listing = await list_record(address, downloads)
    assert not isinstance(asked, HubDataset)
    return replace(listing, origin={**listing.origin, "asked": asked.record})


def _check(spec: DataSourceResourceSpec, files: list[SourceFile], limits: SourceLimits) -> None:
    """Raise StepFailed for files that cannot be kept: all of them are looked at before the first is fetched."""
    if not files:
        which = f"matches {', '.join(spec.files)}" if spec.files else "is there"
        raise fail(f"no file of {spec.source} {which}")
    if len(files) > limits.files:
        raise fail(f"{spec.source} has {len(files)} files, more than the {limits.files} that are allowed")
    size = sum(file.size or 0 for file in files)
    if size > limits.bytes:
        raise fail(
            f"the files of {spec.source} have {size} bytes, more than the {limits.bytes} that are allowed"
        )
    for file in files:
        check_path(file.path, "a file of the source")
    if len({file.path for file in files}) < len(files):
        raise fail(f"{spec.source} has two files of the same name")


def _address(spec: DataSourceResourceSpec) -> SourceAddress:
    try:
        return source_address(spec.sourceKind, spec.source)
    except ValueError as error:
        raise StepFailed("BadConfiguration", f"spec.source: {error}", permanent=True) from error


if __name__ == "__main__":
    run_step(main, "fetch_data_source")
