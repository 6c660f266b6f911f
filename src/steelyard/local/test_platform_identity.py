"""Tests of a platform's identity: its files name it, and another platform's are known."""

import re
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.local import files
from steelyard.local.files import prepare
from steelyard.local.images import prepare_images
from steelyard.local.platform_identity import database_platform, load_identity
from steelyard.local.secret_keys import secret_keys
from steelyard.local.sleeps import SleepState, read_sleep_state, write_sleep_state
from steelyard.local.state import Record, StateDir, read_record, write_record
from steelyard.settings import load
from steelyard_common.errors import Refused
from steelyard_local_kubernetes.apiserver.database import SqliteDatabase
from steelyard_local_kubernetes.apiserver.pki import server_context


@pytest.fixture
def folders(tmp_path: Path) -> tuple[StateDir, StateDir]:
    """Our folder and another platform's, each with a database of Kubernetes and records."""
    made = StateDir(tmp_path / "own"), StateDir(tmp_path / "other")
    for state in made:
        prepare(state)
        SqliteDatabase(state.database, load_identity(state).id).close()
        prepare_images(state, load_identity(state))
        write_record(state, Record(pid=1, port=8080))
        write_sleep_state(state, SleepState(boot="b", ahead=7.0))
    return made


def put(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


def test_a_folder_keeps_its_identity(folders: tuple[StateDir, StateDir]) -> None:
    own, other = folders
    before = (own.identity.read_text(), own.token.read_text(), own.signing_secret.read_text())
    prepare(own)
    assert (own.identity.read_text(), own.token.read_text(), own.signing_secret.read_text()) == before
    assert load_identity(own).id != load_identity(other).id


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]", b'{"platform": 1}', b'{"platform": "x"}', b"\xff"]
)
def test_a_lost_identity_is_read_again_from_the_database(
    folders: tuple[StateDir, StateDir], content: bytes | None
) -> None:
    own, _ = folders
    id, token = load_identity(own).id, own.token.read_text()
    own.identity.unlink() if content is None else own.identity.write_bytes(content)
    prepare(own)
    assert (load_identity(own).id, own.token.read_text()) == (id, token)


def test_a_database_of_another_platform_is_refused_and_nothing_is_changed(
    folders: tuple[StateDir, StateDir],
) -> None:
    """Bindings in it would make administrators here. It is refused before other files are made again."""
    own, other = folders
    put(other.database, own.database)
    content, token = own.database.read_bytes(), own.token.read_text()
    with pytest.raises(
        Refused, match=r"own/kubernetes\.db: belongs to another platform .*up --new-kubernetes"
    ):
        prepare(own)
    assert (own.database.read_bytes(), own.token.read_text()) == (content, token)
    id = own.identity.read_text().split('"')[3]
    with pytest.raises(Refused, match=r"kubernetes\.db: belongs to another platform"):
        SqliteDatabase(own.database, id)
    assert database_platform(own.database) == load_identity(other).id


def test_a_new_database_may_begin_where_another_platforms_is(folders: tuple[StateDir, StateDir]) -> None:
    own, other = folders
    put(other.database, own.database)
    token = own.token.read_text()
    prepare(own, new_kubernetes=True)
    files.new_kubernetes(own, lambda text: None)
    prepare(own)
    SqliteDatabase(own.database, load_identity(own).id).close()
    assert own.token.read_text() == token
    assert [path.read_bytes() for path in own.path.glob("kubernetes.db.aside-*")] == [
        other.database.read_bytes()
    ]


def test_an_identity_of_another_platform_is_refused(folders: tuple[StateDir, StateDir]) -> None:
    own, other = folders
    put(other.identity, own.identity)
    with pytest.raises(Refused, match=r"and .*own/identity\.json is not this folder's, delete that one"):
        prepare(own)
    own.identity.unlink()
    prepare(own)


def test_a_database_of_a_version_before_is_taken_over(folders: tuple[StateDir, StateDir]) -> None:
    own, _ = folders
    connection = sqlite3.connect(own.database)
    connection.execute("DROP TABLE platform")
    connection.close()
    assert database_platform(own.database) is None
    prepare(own)
    SqliteDatabase(own.database, load_identity(own).id).close()
    assert database_platform(own.database) == load_identity(own).id


@pytest.mark.parametrize("name", ["token", "signing-secret"])
def test_a_secret_of_another_platform_is_made_again(folders: tuple[StateDir, StateDir], name: str) -> None:
    own, other = folders
    put(other.pki / name, own.pki / name)
    prepare(own)
    assert (own.pki / name).read_text() != (other.pki / name).read_text()


@pytest.mark.parametrize("position", range(43))
def test_a_secret_with_a_wrong_character_is_made_again(
    folders: tuple[StateDir, StateDir], position: int
) -> None:
    own, _ = folders
    secret = own.token.read_text()
    wrong = secret[:position] + ("A" if secret[position] != "A" else "B") + secret[position + 1 :]
    own.token.write_text(wrong)
    prepare(own)
    assert own.token.read_text() not in (wrong, secret)


def test_secrets_of_a_version_before_stay_good(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.pki.mkdir()
    for path in (state.token, state.signing_secret):
        path.write_text("x" * 43)
    for _ in range(2):
        prepare(state)
        assert state.token.read_text() == state.signing_secret.read_text() == "x" * 43


def check_authority(state: StateDir) -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    server_context(state.pki, "127.0.0.1", now, platform=load_identity(state))


def check_own_images(state: StateDir) -> None:
    files.check_images(state.images, load_identity(state))
    prepare_images(state, load_identity(state))


def read_secret_keys(state: StateDir) -> None:
    secret_keys(state, load(None, state.path))


WITHOUT_MARK: dict[str, Callable[[StateDir], None]] = {
    "images.toml": check_own_images,
    "pki/secret-keys": read_secret_keys,
    "pki/ca.crt": check_authority,
    "pki/ca.key": check_authority,
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("name", WITHOUT_MARK)
def test_a_file_of_a_version_before_gets_the_mark(
    name: str, linked: bool, folders: tuple[StateDir, StateDir], tmp_path: Path
) -> None:
    own, other = folders
    path, use = own.path / name, WITHOUT_MARK[name]
    use(own)
    marked = path.read_text()
    path.write_text(unmarked := re.sub(r"\n# steelyard platform [0-9a-f]{32}", "", marked))
    assert unmarked != marked
    if linked:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    use(own)
    assert path.read_text() == marked
    assert path.is_symlink() == linked
    assert load_identity(other).is_foreign(path.read_text())


def test_a_file_that_cannot_be_marked_is_used_as_it_is(
    folders: tuple[StateDir, StateDir], caplog: pytest.LogCaptureFixture
) -> None:
    own, _ = folders
    load_identity(own).take_over(own.path / "missing")
    (own.path / "binary").write_bytes(b"\xff")
    load_identity(own).take_over(own.path / "binary")
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.partition(": ")[0] for line in said] == [str(own.path / "missing"), str(own.path / "binary")]
    assert (own.path / "binary").read_bytes() == b"\xff"


def test_images_of_another_platform_are_refused(folders: tuple[StateDir, StateDir]) -> None:
    own, other = folders
    put(other.images, own.images)
    with pytest.raises(Refused, match=r"images\.toml: belongs to another platform"):
        files.check_images(own.images, load_identity(own))
    own.images.write_text("# a user's own\n")
    files.check_images(own.images, load_identity(own))


def test_records_of_another_platform_are_none(folders: tuple[StateDir, StateDir]) -> None:
    """The processes in it would be ended, and the sleeps would lengthen deadlines."""
    own, other = folders
    assert (read_record(own).port, read_sleep_state(own).ahead) == (8080, 7.0)
    put(other.record, own.record)
    put(other.sleeps, own.sleeps)
    assert (read_record(own), read_sleep_state(own)) == (Record(), SleepState())
