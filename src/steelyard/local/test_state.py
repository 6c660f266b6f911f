"""The state folder: its place, its rights, and the records in it."""

import os
import stat
from pathlib import Path

import pytest

from steelyard.local import state as folders
from steelyard.local.files import prepare
from steelyard.local.state import Ready, Record, StateDir
from steelyard_common.errors import UsageError


def test_the_default_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert folders.default_state_dir({}) == Path("/home/me/.local/state/steelyard")
    assert folders.default_state_dir({"XDG_STATE_HOME": "/x"}) == Path("/x/steelyard")
    assert folders.default_state_dir({"XDG_STATE_HOME": "relative"}) == Path(
        "/home/me/.local/state/steelyard"
    )


def test_only_the_owner_may_look_inside_and_the_token_stays(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    prepare(state)
    token = state.token.read_text()
    prepare(state)
    assert state.token.read_text() == token
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(state.token.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--state-dir .*file.* cannot be used"):
        prepare(StateDir(tmp_path / "file"))


def test_the_record_is_what_was_written_and_a_broken_one_is_empty(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    record = Record(
        pid=7, started="1", port=8, network=9, children={"operator": (10, "2")}, restarts={"operator": 1}
    )
    folders.write_record(state, record)
    assert folders.read_record(state) == record
    for broken in ("", "[]", '{"children": {"a": 1}}', "{"):
        state.record.write_text(broken)
        assert folders.read_record(state) == Record()


def test_ready_is_read_as_it_was_written(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    assert folders.read_ready(state) is None
    ready = Ready(None, None, state.kubeconfig, 5)
    folders.write_ready(state.ready, ready)
    assert folders.read_ready(state) == ready
    assert [path.name for path in tmp_path.iterdir()] == ["ready.json"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", "7", '"x"', '{"api": 1, "token": 2, "kubeconfig": "k", "pid": 3}']
)
def test_what_cannot_be_read_of_a_run_counts_as_absent(tmp_path: Path, content: str) -> None:
    state = StateDir(tmp_path)
    state.ready.write_text(content)
    state.platform.write_text(content)
    assert folders.read_ready(state) is None
    assert folders.read_platform(state) == (None, None)


def test_a_process_is_known_by_its_start() -> None:
    assert folders.process_start(os.getpid()) == folders.process_start(os.getpid()) != ""
    assert folders.process_start(2**22 + 1) == ""
