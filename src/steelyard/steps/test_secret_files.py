"""Values of secrets as a step reads them from files, and texts that must not repeat them."""

from pathlib import Path

import pytest

from steelyard.steps.common import StepFailed
from steelyard.steps.secret_files import scrub, secret_value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEELYARD_SECRETS", str(tmp_path))
    return tmp_path


def test_a_step_without_secrets_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEELYARD_SECRETS", raising=False)
    assert secret_value("source") is None


def test_a_value_is_the_files_content_without_a_line_break_at_its_end(folder: Path) -> None:
    (folder / "source").write_text("hf_value\n")
    assert secret_value("source") == "hf_value"
    assert secret_value("provider") is None


def test_an_empty_secret_is_a_fault_that_no_repeat_mends(folder: Path) -> None:
    (folder / "source").write_text(" \n")
    with pytest.raises(StepFailed, match=r"secrets\.source: the secret is empty") as failure:
        secret_value("source")
    assert failure.value.permanent


def test_one_that_cannot_be_read_is_named_and_not_shown(folder: Path) -> None:
    (folder / "source").write_bytes(b"hf_value\xff")
    with pytest.raises(StepFailed, match=r"secrets\.source: the secret cannot be read") as failure:
        secret_value("source")
    assert "hf_value" not in failure.value.message
    # Nor in a traceback of it.
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__


def test_texts_are_freed_from_the_value() -> None:
    assert scrub("GET /?token=hf_long-value 401", "hf_long-value") == "GET /?token=*** 401"
    assert scrub("nothing", None) == "nothing"
    assert scrub("a word", "a") == "a word"
