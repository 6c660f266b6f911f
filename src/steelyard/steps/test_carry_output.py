"""Tests of a training job's output: it comes into storage, digested, and nothing else does."""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard.steps.carry_output import copy, files_below, main
from steelyard.steps.common import Log, StepFailed, execute
from steelyard.steps.example import make_config, make_model_spec
from steelyard.steps.fetch_model import main as fetch_model
from steelyard_evaluation.storage.checked import DigestMismatch

CONTENT = b"weights" * 1000
LINEAGE = {"from": "PyTorchJob", "job": "default/digits"}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "model.onnx").write_bytes(CONTENT)
    (tmp_path / "out" / "deep" / "labels.json").write_bytes(b"[]")
    return tmp_path


async def carry(root: Path) -> Any:
    storage = {"output": f"file://{root}/trainings/1"}
    spec = {"path": f"{root}/out", "lineage": LINEAGE, "storage": storage}
    return json.loads(await main(make_config("carry_output", "PyTorchJob", spec), Log("t", io.StringIO())))


def manifest(root: Path, folder: str = "trainings/1") -> Any:
    return json.loads((root / folder / ".steelyard/manifest.json").read_bytes())


async def test_every_file_is_kept_with_its_digest_and_where_it_came_from(root: Path) -> None:
    said = await carry(root)
    assert (root / "trainings/1/model.onnx").read_bytes() == CONTENT
    assert manifest(root)["source"] == LINEAGE
    lines = f"{sha256(b'[]')}  deep/labels.json\n{sha256(CONTENT)}  model.onnx\n"
    assert said == {"files": 2, "bytes": 7002, "output": f"sha256:{sha256(lines.encode())}"}


async def test_what_the_program_says_of_its_data_is_kept_as_its_word(root: Path) -> None:
    (root / "out" / "lineage.json").write_text(
        '{"data": "sha256:d", "code": "sha256:c", "from": "elsewhere"}'
    )
    said = await carry(root)
    assert (said["data"], said["code"]) == ("sha256:d", "sha256:c")
    assert manifest(root)["source"] == {**LINEAGE, "data": "sha256:d", "code": "sha256:c"}


async def test_a_second_attempt_ends_as_the_first(root: Path) -> None:
    first = await carry(root)
    (root / "trainings/1/.steelyard/manifest.json").unlink()
    assert await carry(root) == first == await carry(root)


async def test_an_output_that_changed_between_attempts_is_refused(root: Path) -> None:
    await carry(root)
    (root / "out" / "model.onnx").write_bytes(b"other")
    with pytest.raises(StepFailed, match=r"model\.onnx is there already, with other content"):
        await carry(root)


def _nothing(folder: Path) -> None:
    for path in (folder / "model.onnx", folder / "deep" / "labels.json"):
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "code", "fault"),
    [
        pytest.param(_nothing, "OutputMissing", "STEELYARD_OUTPUT", id="an empty output"),
        pytest.param(
            lambda folder: (folder / "passwd").symlink_to("/etc/passwd"),
            "OutputInvalid", "passwd is a link that leads out", id="a link out of the output",
        ),
        pytest.param(
            lambda folder: (folder / "below").symlink_to("/etc"),
            "OutputInvalid", "below is neither a file nor a folder", id="a link to a folder",
        ),
        pytest.param(
            lambda folder: os.mkfifo(folder / "pipe"),
            "OutputInvalid", "pipe is neither", id="a pipe, which would never end",
        ),
        pytest.param(
            lambda folder: (folder / "lineage.json").write_text("no"),
            "OutputInvalid", "lineage.json is not JSON", id="a lineage that is not JSON",
        ),
        pytest.param(
            lambda folder: (folder / ".steelyard").mkdir() or (folder / ".steelyard" / "x").touch(),
            "BadConfiguration", "which is ours", id="a file in the place of our records",
        ),
    ],
)  # fmt: skip
async def test_refused_for_good(root: Path, spoil: Callable[[Path], None], code: str, fault: str) -> None:
    spoil(root / "out")
    with pytest.raises(StepFailed, match=fault) as failure:
        await carry(root)
    assert (failure.value.code, failure.value.permanent) == (code, True)
    assert not (root / "trainings/1/.steelyard/manifest.json").exists()


@contextmanager
def nobody() -> Iterator[None]:
    """Run as a user who owns nothing: root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def read_all(folder: Path) -> None:
    for path in files_below(folder):
        copy(folder, path, Path(os.devnull))


@pytest.mark.parametrize("name", ["deep", "deep/labels.json"])
def test_what_may_not_be_read_is_named_and_not_left_out(name: str) -> None:
    with tempfile.TemporaryDirectory() as made:  # pytest's own folder is closed to others
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "deep").mkdir()
        (folder / "deep" / "labels.json").write_bytes(b"[]")
        hidden = folder / name
        hidden.chmod(0)
        try:
            with nobody(), pytest.raises(StepFailed) as failed:
                read_all(folder)
        finally:
            hidden.chmod(0o755)
        owner = hidden.stat()
    assert (failed.value.code, failed.value.permanent) == ("OutputInvalid", True)
    assert name in str(failed.value)
    assert f"it belongs to user {owner.st_uid} and group {owner.st_gid}, mode 0000" in str(failed.value)


async def test_a_link_within_the_output_is_kept_as_a_file(root: Path) -> None:
    (root / "out" / "last.onnx").symlink_to("model.onnx")
    assert sorted(files_below(root / "out")) == ["deep/labels.json", "last.onnx", "model.onnx"]
    await carry(root)
    assert (root / "trainings/1/last.onnx").read_bytes() == CONTENT


async def test_a_model_of_it_keeps_the_lineage_and_checks_the_digests(root: Path) -> None:
    await carry(root)
    spec = make_model_spec(root)
    spec["storage"]["inputs"]["source"] = f"file://{root}/trainings/1"
    config = make_config("fetch_model", "Model", spec)
    await fetch_model(config, Log("t", io.StringIO()))
    assert manifest(root, "model")["source"] == {**LINEAGE, "kind": "Upload"}
    assert manifest(root, "model")["files"] == manifest(root)["files"]
    (root / "trainings/1/model.onnx").write_bytes(CONTENT[::-1])
    with pytest.raises(DigestMismatch, match="SHA-256"):
        await fetch_model(config, Log("t", io.StringIO()))


def test_the_last_words_have_the_digests(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(root / "termination"))
    spec = {"path": f"{root}/out", "storage": {"output": f"file://{root}/trainings/1"}}
    config = root / "config.json"
    config.write_text(make_config("carry_output", "PyTorchJob", spec).model_dump_json())
    assert execute(main, Log("t", io.StringIO()), config) == 0
    words = json.loads((root / "termination").read_bytes())
    assert words["code"] == "Complete"
    assert json.loads(words["message"])["files"] == 2
