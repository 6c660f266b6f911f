from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from steelyard.awake import SleepWatch
from steelyard.local.sleeps import SleepRecord, read_sleeps
from steelyard.local.state import StateDir

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_what_the_supervisor_saw_is_known_to_who_starts_later(tmp_path: Path) -> None:
    state, wall = StateDir(tmp_path), [NOON]
    record = SleepRecord(state, lambda state: SleepWatch(lambda: wall[0], lambda: 0.0, read_sleeps(state)))
    assert not record.keep()
    assert not state.sleeps.exists()
    wall[0] += timedelta(hours=8)
    assert record.keep()
    assert not record.keep(), "it is written once"
    assert read_sleeps(state).since(NOON) == pytest.approx(8 * 3600)
    later = SleepWatch(lambda: wall[0], lambda: 0.0, read_sleeps(state))
    assert later.since(NOON) == pytest.approx(8 * 3600)
    state.sleeps.write_text("not JSON")
    assert read_sleeps(state).known == ()
