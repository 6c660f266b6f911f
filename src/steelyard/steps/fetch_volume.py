"""The step that brings data to a runner.

Copies each Data mount from storage to its mount path, and checks the digests.

`python -m steelyard.steps.fetch_volume --config FILE`, as the init container of a session's Pods.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.volume import OURS, check_path, input_store, read_spec
from steelyard_evaluation.storage.checked import with_checks
from steelyard_evaluation.storage.store import Store, display_name
from steelyard_schema.resources import InferenceSessionResourceSpec
from steelyard_schema.steps import StepConfig

MOUNTS = "STEELYARD_MOUNTS"
"""Environment variable in which the kubelet names the folder of each mount path, where mounts are impossible."""


async def main(config: StepConfig, log: Log) -> None:
    spec = read_spec(config, InferenceSessionResourceSpec)
    runner = spec.inferenceService.runner
    mounts = (runner.volumeMounts if runner else None) or []
    moved = json.loads(os.environ.get(MOUNTS, "{}"))
    for mount in mounts:
        if mount.kind != "Data":
            continue
        store = input_store(spec.storage.inputs, mount.name)
        count = await copy(store, find_folder(str(mount.mountPath), moved))
        log.info("copied", mount=mount.name, files=count, to=str(mount.mountPath))


async def copy(store: Store, folder: Path) -> int:
    """Copy a volume; with a manifest, exactly its files, each checked. Returns how many."""
    kept = with_checks(store)
    paths = list(await kept.digests()) or [
        info.key async for info in store.list() if not info.key.startswith(OURS)
    ]
    if not paths:
        raise StepFailed("InputMissing", f"there is no file at {display_name(store.url)}", permanent=False)
    for path in paths:
        target = folder / check_path(path, "a file of the volume")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when checked: a runner that starts early, or an attempt that is killed, sees no half of a
        # model.
        partial = target.with_name(f".{target.name}.partial")
        await kept.download(path, partial)
        partial.rename(target)
    return len(paths)


def find_folder(mount_path: str, moved: Mapping[str, str]) -> Path:
    """The mount path, or the folder that stands for it or for a folder above it."""
    for prefix in sorted(moved, key=len, reverse=True):
        if Path(mount_path).is_relative_to(prefix):
            return Path(moved[prefix]) / Path(mount_path).relative_to(prefix)
    return Path(mount_path)


if __name__ == "__main__":
    run_step(main, "fetch_volume")
