"""The step that fetches a volume's files from storage."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.steps.common import Log, StepFailed
from steelyard.steps.example import make_config, make_model_spec
from steelyard.steps.fetch_model import main as fetch_model
from steelyard.steps.fetch_volume import find_folder, main
from steelyard_evaluation.storage.checked import DigestMismatch


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    """A model kept by `fetch_model`."""
    (tmp_path / "source" / "deep").mkdir(parents=True)
    (tmp_path / "source" / "model.onnx").write_bytes(b"weights")
    (tmp_path / "source" / "deep" / "labels.json").write_bytes(b"[]")
    config = make_config("fetch_model", "Model", make_model_spec(tmp_path))
    await fetch_model(config, Log("t", io.StringIO()))
    return tmp_path


def _session(root: Path, inputs: dict[str, str] | None = None) -> dict[str, Any]:
    mounts = [
        {
            "kind": "Data",
            "name": "model",
            "mountPath": f"{root}/mnt",
            "data": {"source": {"kind": "Model", "id": "m"}},
        },
        {"kind": "Scratch", "name": "work", "mountPath": f"{root}/work", "scratch": {"capacity": "1Gi"}},
    ]
    service = {
        "id": "s",
        "account": "examples",
        "name": "service",
        "runner": {"kind": "mock", "resources": {}, "volumeMounts": mounts},
        "interface": {"endpoint": "predict", "outputSchema": {"arrowSchema": ""}},
    }
    places = {"model": f"file://{root}/model"} if inputs is None else inputs
    return {"inferenceService": service, "storage": {"inputs": places}}


async def _fetch(root: Path, inputs: dict[str, str] | None = None) -> None:
    await main(
        make_config("fetch_volume", "InferenceSession", _session(root, inputs)), Log("t", io.StringIO())
    )


def _there(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


async def test_brings_the_files_and_nothing_of_ours(root: Path) -> None:
    await _fetch(root)
    assert _there(root / "mnt") == {"model.onnx": b"weights", "deep/labels.json": b"[]"}
    assert not (root / "work").exists()
    await _fetch(root)  # an init container may run again


async def test_a_file_that_changed_in_storage_is_refused(root: Path) -> None:
    (root / "model/model.onnx").write_bytes(b"WEIGHTS")
    with pytest.raises(DigestMismatch, match=r"model\.onnx is not what was kept"):
        await _fetch(root)
    assert "model.onnx" not in _there(root / "mnt")


async def test_files_next_to_the_manifest_stay_behind(root: Path) -> None:
    (root / "model/stray").write_bytes(b"x")
    await _fetch(root)
    assert "stray" not in _there(root / "mnt")


async def test_data_without_a_manifest_come_whole(root: Path) -> None:
    await _fetch(root, {"model": f"file://{root}/source"})
    assert _there(root / "mnt") == {"model.onnx": b"weights", "deep/labels.json": b"[]"}


async def test_a_manifest_cannot_lead_out_of_the_mount(root: Path) -> None:
    path = root / "model/.steelyard/manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"][0]["path"] = "../../escaped"
    path.write_text(json.dumps(manifest))
    with pytest.raises(StepFailed, match="not allowed"):
        await _fetch(root)


async def test_nothing_there_is_worth_a_retry(root: Path) -> None:
    with pytest.raises(StepFailed, match="there is no file at") as failure:
        await _fetch(root, {"model": f"file://{root}/nowhere"})
    assert (failure.value.code, failure.value.permanent) == ("InputMissing", False)


async def test_a_mount_without_a_location_is_named(root: Path) -> None:
    with pytest.raises(StepFailed, match=r"spec\.storage\.inputs\.model: is missing"):
        await _fetch(root, {})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/dyff/mnt/volume", "/state/pod/volume"),
        ("/dyff/mnt/volume/sub", "/state/pod/volume/sub"),
        ("/dyff/mnt/volumes", "/dyff/mnt/volumes"),
    ],
)
def test_moved_mounts_are_found(path: str, expected: str) -> None:
    assert find_folder(path, {"/dyff/mnt/volume": "/state/pod/volume"}) == Path(expected)
