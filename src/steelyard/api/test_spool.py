"""The folder of the setting `api.spool`: one that cannot be used is named before the first upload."""

import errno
import tempfile
from pathlib import Path

import pytest

from steelyard.api.settings import ApiSettings
from steelyard.api.spool import make_folder, spool_fault


def test_a_folder_that_can_be_written_is_used_and_left_empty(tmp_path: Path) -> None:
    settings = ApiSettings(spool=str(tmp_path))
    assert spool_fault(settings) == ""
    with make_folder(settings, "upload-") as folder:
        assert Path(folder).parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_without_the_setting_it_is_the_folder_of_the_system() -> None:
    assert spool_fault(ApiSettings()) == ""
    with make_folder(ApiSettings(), "upload-") as folder:
        assert str(Path(folder).parent) == tempfile.gettempdir()


@pytest.mark.parametrize(
    ("spool", "words"),
    [
        ("{folder}/none", "{folder}/none: No such file or directory"),
        ("{folder}/file", "{folder}/file: Not a directory"),
        ("a\0b", "a\0b: embedded null byte"),
    ],
    ids=["is missing", "is a file", "is no path"],
)
def test_any_other_is_named_with_what_it_should_be(tmp_path: Path, spool: str, words: str) -> None:
    (tmp_path / "file").touch()
    fault = spool_fault(ApiSettings(spool=spool.format(folder=tmp_path)))
    assert fault == f"{words.format(folder=tmp_path)}; it should be a folder in which the API may write files"


def test_a_folder_that_takes_no_files_is_named() -> None:
    # Not by its mode, which root may pass over.
    assert spool_fault(ApiSettings(spool="/proc")).startswith("/proc: ")


def test_a_system_without_a_folder_for_temporary_files_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert spool_fault(ApiSettings()).startswith(
        "is not set: No usable temporary directory found; it should be"
    )


def test_a_full_disk_is_no_fault_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", fill)
    assert spool_fault(ApiSettings()) == ""
