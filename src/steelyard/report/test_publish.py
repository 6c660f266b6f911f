"""Tests of the order in which a report or an audit is written."""

from pathlib import Path

import pytest

from steelyard.report.audit.make import Audit
from steelyard.report.publish import publish_audit
from steelyard.storage.files import FileStore


class _Breaking(FileStore):
    """A store whose writes of audit.json fail."""

    async def put(self, key: str, data: bytes) -> None:
        if key == "audit.json":
            raise OSError("the process is gone")
        await super().put(key, data)


async def test_an_audit_that_is_cut_off_leaves_no_page_beside_other_files(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("of an earlier audit")
    audit = Audit(b"page", b'{"requirements":[],"baseline":null}', {}, "")
    with pytest.raises(OSError, match="gone"):
        await publish_audit(audit, _Breaking(tmp_path))
    assert not (tmp_path / "index.html").exists()
