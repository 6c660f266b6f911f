"""Tests of the comparison of a model with a report's evidence."""

import hashlib
from pathlib import Path

import pytest

from steelyard_common.types import JsonValue
from steelyard_evaluation.report.evidence.files import ReportFolders
from steelyard_evaluation.report.evidence.model_files import check_model, check_served_model


def entry(path: str, content: bytes, what: str = "Model") -> JsonValue:
    return {"what": what, "path": path, "sha256": hashlib.sha256(content).hexdigest()}


SERVED = [
    entry("config.json", b"{}"),
    entry("sub/model.safetensors", b"1"),
    entry(".steelyard/manifest.json", b"ours"),
    entry("inputs", b"1", "Dataset"),
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The folder that was served, with hidden files, which no server reads."""
    folder = tmp_path / "m"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "model.safetensors").write_text("1")
    (folder / ".gitattributes").touch()
    return folder


def test_the_folder_that_was_served_has_no_fault(model: Path) -> None:
    (check,) = check_model(SERVED, model)
    assert (check.state, check.what) == ("fine", "Model: 2 of 2 files have the SHA-256 of what was served")


def test_each_file_that_is_not_the_served_one_is_named(model: Path) -> None:
    (model / "config.json").write_text("[]")
    (model / "sub" / "model.safetensors").rename(model / "sub" / "other.safetensors")
    said = [check.what for check in check_model(SERVED, model) if check.state == "fault"]
    assert [line.partition(":")[2].partition(":")[0] for line in said] == [
        " config.json differs",
        " sub/model.safetensors is missing",
        " sub/other.safetensors is extra",
    ]


@pytest.mark.parametrize("wrong", [7, None, {"what": "Model"}, {"what": "Model", "path": 1, "sha256": "x"}])
def test_an_edited_list_is_read_as_far_as_it_goes(model: Path, wrong: JsonValue) -> None:
    assert [check.state for check in check_model([wrong, *SERVED], model)] == ["fine"]
    assert [check.state for check in check_model([wrong], model)] == ["fault"]


def test_a_gguf_lies_next_to_others(tmp_path: Path) -> None:
    served = [entry("a.gguf", b"a")]
    (tmp_path / "a.gguf").write_bytes(b"a")
    (tmp_path / "b.gguf").write_bytes(b"b")
    assert [check.state for check in check_model(served, tmp_path)] == ["unchecked", "fine"]
    assert [check.state for check in check_model(served, tmp_path / "a.gguf")] == ["fine"]
    assert {check.state for check in check_model(served, tmp_path / "b.gguf")} == {"fault", "unchecked"}


@pytest.mark.parametrize(
    ("evidence", "name", "words"),
    [
        ([entry("inputs", b"1", "Dataset")], "m", "does not say which model files were served"),
        (SERVED, "elsewhere", "there is no such folder or file"),
    ],
)
def test_what_cannot_be_compared_is_a_fault(model: Path, evidence: JsonValue, name: str, words: str) -> None:
    (check,) = check_model(evidence, model.with_name(name))
    assert check.state == "fault"
    assert words in check.what


def test_a_report_without_its_numbers_names_no_model(model: Path, tmp_path: Path) -> None:
    folders = ReportFolders(tmp_path, tmp_path, tmp_path, tmp_path, model=model)
    (check,) = check_served_model(folders)
    assert "no report.json" in check.what
