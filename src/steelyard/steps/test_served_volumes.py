"""The record of the volumes that a session serves."""

import asyncio
import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from steelyard.steps.common import Log, StepFailed
from steelyard.steps.evaluation_client import list_volumes, main
from steelyard.steps.example import make_config
from steelyard.steps.volume import VolumeManifest, keep, seal
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.doubles import make_spec, write_dataset
from steelyard_evaluation.storage.files import FileStore
from steelyard_schema.resources import EvaluationResourceSpec

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
    folders = await list_volumes(mounting(tmp_path, "model", known=("model",)))
    raw = await store.get(".steelyard/manifest.json")
    manifest = {
        "path": ".steelyard/manifest.json",
        "size": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    weights = {"path": "weights.onnx", "size": 1, "sha256": hashlib.sha256(b"w").hexdigest()}
    assert folders == [{"name": "model", "source": MODEL, "files": [weights, manifest]}]


async def test_a_volume_without_digests_is_named_without_files(tmp_path: Path) -> None:
    spec = mounting(tmp_path, "plain", "elsewhere", known=("plain",))
    assert await list_volumes(spec) == [{"name": "plain", "source": MODEL}]


async def test_a_system_without_mounts_has_none() -> None:
    assert await list_volumes(make_spec()) == []


async def test_an_output_is_not_gone_on_with_by_another_model(tmp_path: Path) -> None:
    await write_dataset(FileStore(tmp_path / "dataset"), 3)
    spec = mounting(tmp_path, "model", known=("model", "dataset")).dump()
    spec["storage"]["output"] = f"file://{tmp_path}/output"
    await _model(tmp_path, b"one")
    first = asyncio.create_task(_ask(tmp_path, spec, 1))
    while not (tmp_path / "output" / layout.RUN).exists():  # noqa: ASYNC110 - it waits for replicas
        await asyncio.sleep(0.005)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    (tmp_path / "model").rename(tmp_path / "gone")
    await _model(tmp_path, b"two")
    with pytest.raises(StepFailed, match="begun with other volumes"):
        await asyncio.wait_for(_ask(tmp_path, spec, 2), 60)


async def _model(folder: Path, content: bytes) -> None:
    (folder / "weights").write_bytes(content)
    store = FileStore(folder / "model")
    kept = await keep(store, "weights.onnx", folder / "weights")
    await seal(store, VolumeManifest(source={"kind": "Upload"}, files=[kept]))


async def _ask(folder: Path, spec: dict[str, Any], attempt: int) -> None:
    (folder / "replicas").write_text("")
    config = make_config("evaluation_client", "Evaluation", {}).model_copy(
        update={
            "spec": spec,
            "replicas": f"file:{folder}/replicas",
            "epoch": f"1795241700-11111111-{attempt:04d}",
        }
    )
    await main(config, Log("t", io.StringIO()))
