"""Keys of secrets on one machine, and where several machines have to be given theirs."""

import stat
from pathlib import Path

import pytest

from steelyard.accounts.secrets import KeyFileError
from steelyard.local.secret_keys import secret_keys
from steelyard.local.state import StateDir
from steelyard.settings import Settings, load


def settings(state: StateDir, **changes: str) -> Settings:
    return load(None, state.path).model_copy(update=changes)


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def test_one_machine_makes_its_keys_once(state: StateDir) -> None:
    first = secret_keys(state, settings(state))
    assert first is not None
    assert stat.S_IMODE(state.secret_keys.stat().st_mode) == 0o600
    again = secret_keys(state, settings(state))
    assert again is not None
    assert again.first == first.first


def test_one_machine_makes_them_also_where_accounts_are_on_a_server(state: StateDir) -> None:
    assert secret_keys(state, settings(state, accounts="postgresql://db/steelyard")) is not None


def test_processes_of_several_machines_make_none(state: StateDir) -> None:
    """Each would make others, and none could read what another has stored."""
    many = settings(state, accounts="postgresql://db/steelyard", kubernetes="/etc/kubeconfig")
    assert secret_keys(state, many) is None
    assert not state.secret_keys.exists()


def test_keys_that_the_settings_name_have_to_be_there(state: StateDir, tmp_path: Path) -> None:
    named = settings(state, secret_keys=str(tmp_path / "keys"))
    with pytest.raises(KeyFileError, match=r"secret_keys .*keys: there is no such file"):
        secret_keys(state, named)
    assert not (tmp_path / "keys").exists()


def test_a_damaged_file_is_never_replaced(state: StateDir) -> None:
    state.secret_keys.parent.mkdir(parents=True)
    for content in (b"damaged", b"\xff", b""):
        state.secret_keys.write_bytes(content)
        with pytest.raises(
            KeyFileError, match=r"secret_keys .*Put this platform's file back, or keep it aside"
        ):
            secret_keys(state, settings(state))
        assert state.secret_keys.read_bytes() == content
