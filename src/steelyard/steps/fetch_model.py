"""The step that fetches a model into storage, once, with the SHA-256 of every file.

`python -m steelyard.steps.fetch_model --config FILE`, as the `<name>-run-aN` Job of a Model. Files are
written create-only, so that an attempt that was cut off is simply done again.
"""

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from steelyard.schema.resources import ModelResourceSpec
from steelyard.schema.steps import StepConfig
from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.model_sources import FETCH_FAILED, RemoteFile, described, uploaded
from steelyard.steps.volume import (
    Progress,
    VolumeConflict,
    VolumeManifest,
    checked_path,
    keep,
    opened,
    seal,
    spec_of,
)


async def main(config: StepConfig, log: Log) -> None:
    spec = spec_of(config, ModelResourceSpec)
    output = opened(spec.storage.output, "spec.storage.output")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        remotes = await source_files(spec, scratch)
        for remote in remotes:
            checked_path(remote.path, "a file of the source")
        log.info("fetching", files=len(remotes), source=spec.source.kind)
        progress = Progress(output, "files", len(remotes), lambda: datetime.now(UTC))
        kept = []
        try:
            for number, remote in enumerate(sorted(remotes, key=lambda each: each.path)):
                await progress.tell(number, remote.path)
                local = scratch / "file"
                await remote.fetch(local)
                await asyncio.to_thread(remote.check, local)
                kept.append(await keep(output, remote.path, local))
                local.unlink()
            await seal(output, VolumeManifest(source=_described(spec), files=kept))
        except VolumeConflict as error:
            raise StepFailed(FETCH_FAILED, str(error), permanent=True) from error
        await progress.tell(len(kept), "complete")
    log.info("the model is kept", files=len(kept), bytes=sum(file.size for file in kept))


async def source_files(spec: ModelResourceSpec, scratch: Path) -> list[RemoteFile]:
    """What there is to fetch; the libraries of a source are loaded only when it is asked for."""
    match spec.source.kind:
        case "Upload":
            return await uploaded(spec)
        case "HuggingFaceHub":
            from steelyard.steps.hub_source import hub_files

            return described(spec, await hub_files(spec, scratch))
        case "GitLFS":
            from steelyard.steps.git_source import git_files

            return described(spec, await git_files(spec, scratch))
        case other:
            known = "Upload, HuggingFaceHub and GitLFS are"
            message = f"spec.source.kind: {other} is not implemented; {known}"
            raise StepFailed("NotImplemented", message, permanent=True)


def _described(spec: ModelResourceSpec) -> dict[str, str]:
    """Where the files came from, as the manifest says it."""
    if spec.source.huggingFaceHub is not None:
        return {
            "kind": "HuggingFaceHub",
            "repoID": spec.source.huggingFaceHub.repoID,
            "revision": spec.source.huggingFaceHub.revision,
        }
    if spec.source.gitLFS is not None:
        return {"kind": "GitLFS", "url": spec.source.gitLFS.url}
    return {"kind": spec.source.kind}


if __name__ == "__main__":
    run_step(main, "fetch_model")
