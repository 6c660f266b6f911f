"""The step that fetches a model: digests, further attempts, refusals."""

import base64
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.steps.common import Log, StepFailed, execute
from steelyard.steps.example import make_config, make_model_spec
from steelyard.steps.fetch_model import main

CONTENT = b"weights" * 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "source" / "deep").mkdir(parents=True)
    (tmp_path / "source" / "model.onnx").write_bytes(CONTENT)
    (tmp_path / "source" / "deep" / "labels.json").write_bytes(b"[]")
    return tmp_path


def _listed(path: str = "model.onnx", size: int = len(CONTENT), md5: str | None = None) -> dict[str, Any]:
    digest = md5 or base64.b64encode(hashlib.md5(CONTENT).digest()).decode()
    return {"kind": "Volume", "volume": {"files": [{"path": path, "size": size, "digest": {"md5": digest}}]}}


async def _fetch(root: Path, **changes: Any) -> None:
    await main(make_config("fetch_model", "Model", make_model_spec(root, **changes)), Log("t", io.StringIO()))


def _manifest(root: Path) -> Any:
    return json.loads((root / "model/.steelyard/manifest.json").read_bytes())


async def test_keeps_all_that_lies_at_the_source_with_digests(root: Path) -> None:
    await _fetch(root)
    assert (root / "model/deep/labels.json").read_bytes() == b"[]"
    assert _manifest(root) == {
        "schemaVersion": "0.1",
        "source": {"kind": "Upload"},
        "files": [
            {"path": "deep/labels.json", "size": 2, "sha256": hashlib.sha256(b"[]").hexdigest()},
            {"path": "model.onnx", "size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()},
        ],
    }
    progress = json.loads((root / "model/.steelyard/progress.json").read_bytes())
    assert (progress["done"], progress["total"], progress["unit"]) == (7002, 7002, "bytes")


async def test_an_uploads_own_manifest_is_no_lineage(root: Path) -> None:
    (root / "source/.steelyard").mkdir()
    (root / "source/.steelyard/manifest.json").write_text('{"files": [{"path": "model.onnx", "md5": "x"}]}')
    await _fetch(root)
    assert _manifest(root)["source"] == {"kind": "Upload"}
    assert len(_manifest(root)["files"]) == 2


async def test_a_second_attempt_goes_on(root: Path) -> None:
    await _fetch(root)
    before = _manifest(root)
    (root / "model/.steelyard/manifest.json").unlink()
    (root / "model/model.onnx").unlink()
    await _fetch(root)
    assert _manifest(root) == before
    await _fetch(root)


async def test_only_what_is_listed_is_kept(root: Path) -> None:
    await _fetch(root, artifact=_listed())
    assert [file["path"] for file in _manifest(root)["files"]] == ["model.onnx"]


@pytest.mark.parametrize(
    ("artifact", "fault"),
    [
        (_listed(size=3), r"model\.onnx is not the file that was described: 7000 bytes instead of 3"),
        (
            _listed(md5=base64.b64encode(bytes(16)).decode()),
            r"model\.onnx is not .*: its MD5 is .* instead of AAAA",
        ),
        (
            _listed(md5="abc"),
            r"spec\.artifact\.volume\.files\.0\.digest\.md5: should be the base64 of 16 bytes",
        ),
        (_listed(path="../x"), r"spec\.artifact\.volume\.files\.0\.path: "),
        (_listed(path="a%2e/x"), r"spec\.artifact\.volume\.files\.0\.path: .*'a%2e' is not allowed"),
        (_listed(path=".steelyard/manifest.json"), r"which is ours"),
        (_listed(path=".dyff/logs.txt"), r"lies in \.dyff/, which is ours"),
    ],
)
async def test_what_differs_is_refused_for_good(root: Path, artifact: dict[str, Any], fault: str) -> None:
    with pytest.raises(StepFailed, match=fault) as failure:
        await _fetch(root, artifact=artifact)
    assert failure.value.permanent
    assert not (root / "model/model.onnx").exists()
    assert not (root / "model/.steelyard/manifest.json").exists()


async def test_never_overwrites_another_model(root: Path) -> None:
    await _fetch(root)
    (root / "source/model.onnx").write_bytes(b"other")
    with pytest.raises(StepFailed, match="is there already, with other content") as failure:
        await _fetch(root)
    assert failure.value.permanent
    assert (root / "model/model.onnx").read_bytes() == CONTENT


async def test_an_upload_that_is_not_there_yet_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="there is no file at") as failure:
        await _fetch(tmp_path)
    assert (failure.value.code, failure.value.permanent) == ("InputMissing", False)


@pytest.mark.parametrize("kind", ["Mock", "OpenLLM"])
async def test_other_sources_say_that_they_are_not_implemented(root: Path, kind: str) -> None:
    with pytest.raises(StepFailed, match=rf"spec\.source\.kind: {kind} is not implemented") as failure:
        await _fetch(root, source={"kind": kind})
    assert (failure.value.code, failure.value.permanent) == ("NotImplemented", True)


@pytest.mark.parametrize("missing", ["output", "inputs"])
async def test_missing_locations_are_named(root: Path, missing: str) -> None:
    storage = make_model_spec(root)["storage"]
    del storage[missing]
    with pytest.raises(StepFailed, match=r"spec\.storage\..*: is missing"):
        await _fetch(root, storage=storage)


def test_the_program_writes_its_last_words(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = root / "termination"
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(words))
    config = make_config("fetch_model", "Model", make_model_spec(root, artifact=_listed(size=3)))
    (root / "config.json").write_text(config.model_dump_json())
    assert execute(main, Log("fetch_model", io.StringIO()), root / "config.json") == 65
    assert json.loads(words.read_bytes())["code"] == "FetchFailed"
