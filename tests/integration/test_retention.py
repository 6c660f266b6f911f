"""Retention on files: deleted content leaves every place in its time."""

from pathlib import Path

import pytest

from steelyard.local.files import prepare
from steelyard.local.state import StateDir
from steelyard.settings import load
from tests.integration.retention import check_days, live_through


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("busy", [True, False], ids=["a busy platform", "a quiet platform"])
async def test_what_is_deleted_leaves_every_place_in_its_time(tmp_path: Path, busy: bool) -> None:
    prepare(StateDir(tmp_path))
    check_days(await live_through(load(None, tmp_path), (tmp_path / "mirror").as_uri(), busy=busy))
