"""Digests of the evaluated system: those of the volumes that its replicas mount.

`evaluation_client` keeps them in run.json, so that a report can name the model's files, and an output that was begun
with other files is not gone on with. `fetch_volume` checks the same digests in every replica.
"""

import hashlib

from steelyard.steps.volume import VolumeManifest, input_store
from steelyard.storage.store import ObjectMissing
from steelyard_common.types import Json
from steelyard_schema.names import MANIFEST
from steelyard_schema.resources import EvaluationResourceSpec


async def served_volumes(spec: EvaluationResourceSpec) -> list[Json]:
    """Every Data mount whose location is known, by name; without files where no digests of them were kept."""
    runner = spec.inferenceSession.inferenceService.runner
    folders = []
    for mount in (runner.volumeMounts if runner else None) or []:
        if mount.data is None or mount.name not in spec.storage.inputs:
            continue
        described = {"name": mount.name, "source": mount.data.source.dump()}
        folders.append(described | await _content(spec, mount.name))
    return sorted(folders, key=lambda volume: str(volume["name"]))


async def _content(spec: EvaluationResourceSpec, name: str) -> Json:
    store = input_store(spec.storage.inputs, name)
    try:
        raw = await store.get(MANIFEST)
    # Volumes of earlier versions have no manifest: their files are unknown, which the report says.
    except ObjectMissing:
        return {}
    files = VolumeManifest.model_validate_json(raw).files
    manifest = {"path": MANIFEST, "size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return {"files": [*(file.model_dump() for file in files), manifest]}
