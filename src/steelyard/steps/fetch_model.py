"""The step that fetches a model into storage, once, with the SHA-256 of every file.

`python -m steelyard.steps.fetch_model --config FILE`, as the `<name>-run-aN` Job of a Model. Files are
written create-only, so that an attempt that was cut off is simply done again: with the commit that the first one found.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.model_sources import FETCH_FAILED, RemoteFile, check_listed, list_uploaded
from steelyard.steps.progress import Progress
from steelyard.steps.secret_files import secret_value
from steelyard.steps.volume import (
    SourceVersion,
    VolumeConflict,
    VolumeFile,
    VolumeManifest,
    check_path,
    input_store,
    keep,
    open_field_store,
    read_carried_manifest,
    read_spec,
    seal,
)
from steelyard_evaluation.storage.store import Store
from steelyard_schema.egress import EgressPolicy
from steelyard_schema.resources import ModelResourceSpec
from steelyard_schema.steps import StepConfig


class Fetching:
    """Progress of the fetching: in bytes where the source gives sizes, else in files."""

    def __init__(self, remotes: Sequence[RemoteFile], scratch: Path) -> None:
        self.remotes = sorted(remotes, key=lambda remote: remote.path)
        # One unknown size makes the sum meaningless; then files are counted.
        self.sizes_known = all(remote.size is not None for remote in remotes)
        self.total = sum(map(self.weight, remotes))
        self.done = 0
        self.now: RemoteFile | None = None
        self._scratch = scratch

    def weight(self, remote: RemoteFile) -> int:
        return (remote.size or 0) if self.sizes_known else 1

    def measure(self) -> tuple[int, str]:
        """Return the bytes that are kept, with those of the current file on local disk, and its name."""
        if self.now is None:
            return self.done, ""
        arrived = self._count_arrived() if self.sizes_known else 0
        # Libraries fetch into files of their own size, such as with a piece read ahead: never more than the
        # file.
        return min(self.total, self.done + min(arrived, self.weight(self.now))), self.now.path

    def _count_arrived(self) -> int:
        size = 0
        for path in self._scratch.rglob("*"):
            with suppress(OSError):  # moved or removed meanwhile
                size += path.stat().st_size if path.is_file() else 0
        return size


async def main(config: StepConfig, log: Log) -> None:
    spec = read_spec(config, ModelResourceSpec)
    output = open_field_store(spec.storage.output, "spec.storage.output")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        remotes = await source_files(spec, scratch, config.egress or EgressPolicy(), SourceVersion(output))
        for remote in remotes:
            # All names are checked before anything is fetched: a bad one at the end would cost the whole transfer.
            check_path(remote.path, "a file of the source")
        log.info("fetching", files=len(remotes), source=spec.source.kind)
        fetching = Fetching(remotes, scratch)
        progress = Progress(output, "bytes" if fetching.sizes_known else "files", fetching.total)
        try:
            async with progress.report_regularly(fetching.measure):
                kept = [await _keep(output, remote, scratch, fetching) for remote in fetching.remotes]
            await seal(output, VolumeManifest(source=await _describe(spec), files=kept))
        except VolumeConflict as error:
            raise StepFailed(FETCH_FAILED, str(error), permanent=True) from error
        await progress.report(fetching.total, "complete", last=True)
    log.info("the model is kept", files=len(kept), bytes=sum(file.size for file in kept))


async def _keep(output: Store, remote: RemoteFile, scratch: Path, fetching: Fetching) -> VolumeFile:
    """One file, from its source to the volume; local disk holds one at a time."""
    fetching.now = remote
    local = scratch / "file"
    await remote.fetch(local)
    # Before it is kept: files in storage are create-only, so a wrong one would stay.
    await asyncio.to_thread(remote.check, local)
    kept = await keep(output, remote.path, local)
    fetching.done += fetching.weight(remote)
    # The disk of the Pod has room for the largest file, not for the model.
    local.unlink()
    return kept


async def source_files(
    spec: ModelResourceSpec, scratch: Path, policy: EgressPolicy, version: SourceVersion
) -> list[RemoteFile]:
    """List the files to fetch; the libraries of a source are loaded only when it is used."""
    match spec.source.kind:
        case "Upload":
            return await list_uploaded(spec)
        case "HuggingFaceHub":
            # Imported only here: the library takes long to load, which other sources need not pay.
            from steelyard.steps.hub_source import hub_files

            files = await hub_files(spec, scratch, policy, version, secret_value("source"))
            return check_listed(spec, files)
        case "GitLFS":
            from steelyard.steps.git_source import git_files

            return check_listed(spec, await git_files(spec, scratch, policy, version))
        case other:
            known = "Upload, HuggingFaceHub and GitLFS are"
            message = f"spec.source.kind: {other} is not implemented; {known}"
            raise StepFailed("NotImplemented", message, permanent=True)


async def _describe(spec: ModelResourceSpec) -> dict[str, str]:
    """Return the origin of the files, as the manifest states it; for a training job's output also its
    lineage.
    """
    if spec.source.huggingFaceHub is not None:
        return {
            "kind": "HuggingFaceHub",
            "repoID": spec.source.huggingFaceHub.repoID,
            "revision": spec.source.huggingFaceHub.revision,
        }
    if spec.source.gitLFS is not None:
        return {"kind": "GitLFS", "url": spec.source.gitLFS.url}
    manifest = await read_carried_manifest(input_store(spec.storage.inputs, "source"))
    return {**(manifest.source if manifest else {}), "kind": spec.source.kind}


if __name__ == "__main__":
    run_step(main, "fetch_model")
