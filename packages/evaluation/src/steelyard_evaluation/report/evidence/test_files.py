"""Digests of the files that a report names."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from steelyard_evaluation.report.evidence import files
from steelyard_evaluation.report.evidence.files import LeftOut, ReportFolders, check_digests
from steelyard_evaluation.report.page.document import SCORES


def test_a_file_that_is_named_often_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def file_sha256(path: Path) -> str:
        read.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(files, "file_sha256", file_sha256)
    (tmp_path / "rows").write_bytes(b"rows")
    right: dict[str, Any] = {"what": SCORES, "path": "rows", "sha256": hashlib.sha256(b"rows").hexdigest()}
    folders = ReportFolders(tmp_path, tmp_path, tmp_path, tmp_path)
    checks = list(check_digests([right, right | {"sha256": "0" * 64}] * 1000, folders, LeftOut({})))
    assert len(read) == 1
    assert sum(check.state == "fault" for check in checks) == 1000
