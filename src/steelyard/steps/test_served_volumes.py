import hashlib
from pathlib import Path
from typing import Any

from steelyard.evaluation.doubles import make_spec
from steelyard.schema.resources import EvaluationResourceSpec
from steelyard.steps.served_volumes import served_volumes
from steelyard.steps.volume import VolumeManifest, keep, seal
from steelyard.storage.files import FileStore

MODEL = {"id": "a" * 32, "kind": "Model"}


def mounting(folder: Path, *names: str, known: tuple[str, ...]) -> EvaluationResourceSpec:
    spec: dict[str, Any] = make_spec().dump()
    spec["inferenceSession"]["inferenceService"]["runner"] = {
        "kind": "mock",
        "resources": {},
        "volumeMounts": [
            {"kind": "Data", "name": name, "mountPath": f"/mnt/{name}", "data": {"source": MODEL}}
            for name in names
        ]
        + [{"kind": "Scratch", "name": "free", "mountPath": "/mnt/free", "scratch": {"capacity": "1Mi"}}],
    }
    spec["storage"] = {"inputs": {name: f"file://{folder}/{name}" for name in known}}
    return EvaluationResourceSpec.parse(spec)


async def test_each_mounted_volume_is_described_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"w")
    store = FileStore(tmp_path / "model")
    kept = await keep(store, "weights.onnx", tmp_path / "weights")
    await seal(store, VolumeManifest(source={"kind": "Upload"}, files=[kept]))
    found = await served_volumes(mounting(tmp_path, "model", known=("model",)))
    raw = await store.get(".steelyard/manifest.json")
    manifest = {
        "path": ".steelyard/manifest.json",
        "size": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    weights = {"path": "weights.onnx", "size": 1, "sha256": hashlib.sha256(b"w").hexdigest()}
    assert found == [{"name": "model", "source": MODEL, "files": [weights, manifest]}]


async def test_what_nobody_digested_is_named_without_files(tmp_path: Path) -> None:
    spec = mounting(tmp_path, "plain", "elsewhere", known=("plain",))
    assert await served_volumes(spec) == [{"name": "plain", "source": MODEL}]


async def test_a_system_without_mounts_has_none() -> None:
    assert await served_volumes(make_spec()) == []
