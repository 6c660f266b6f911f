"""Tests of lost or damaged files of a state folder: which are made again, and which are refused."""

import asyncio
import contextlib
import os
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.local import files
from steelyard.local import state as folders
from steelyard.local.process import in_lines
from steelyard.local.state import Record, StateDir
from steelyard.sqlite import DatabaseError
from steelyard_common.errors import Refused, SteelyardError
from steelyard_common.presence import watch
from steelyard_common.serving.bounded import bind
from steelyard_kube.leader import LeaseLost


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    made = StateDir(tmp_path / "state")
    files.prepare(made)
    return made


def test_a_first_start_may_make_a_database(state: StateDir) -> None:
    files.check_kubernetes(state)


@pytest.mark.parametrize("witness", ["kubeconfig", "pods/0123"])
@pytest.mark.parametrize("content", [None, b""])
def test_a_lost_database_of_kubernetes_is_refused_until_a_person_says_so(
    state: StateDir, witness: str, content: bytes | None
) -> None:
    (state.path / witness).mkdir()
    if content is not None:
        state.database.write_bytes(content)
    with pytest.raises(Refused, match=r"kubernetes\.db: is .*steelyard up --new-kubernetes --state-dir"):
        files.check_kubernetes(state)
    said: list[str] = []
    files.new_kubernetes(state, said.append)
    files.check_kubernetes(state)
    assert len(said) == (content is not None)


def test_a_damaged_database_of_kubernetes_is_kept(state: StateDir) -> None:
    state.database.write_bytes(b"precious")
    files.new_kubernetes(state, lambda text: None)
    (aside,) = state.path.glob("kubernetes.db.aside-*")
    assert aside.read_bytes() == b"precious"


def test_images_that_cannot_be_read_are_named(state: StateDir) -> None:
    files.check_images(state.images)
    for damage in (b'["localhost/mine"]\npython = "/us', b"\xff", b"a = " + b"[" * 100_000):
        state.images.write_bytes(damage)
        with pytest.raises(Refused, match=r"images\.toml: is not valid TOML .*mend it, or delete it"):
            files.check_images(state.images)


@pytest.mark.parametrize("name", ["token", "signing-secret"])
@pytest.mark.parametrize("damage", [b"", b"half", b"\xff" * 43])
def test_a_secret_that_was_cut_off_is_made_again(state: StateDir, name: str, damage: bytes) -> None:
    (state.pki / name).write_bytes(damage)
    files.prepare(state)
    assert len((state.pki / name).read_text()) == 43


@pytest.mark.parametrize(
    "content", ['{"port": "8080"}', '{"pid": null}', '{"api": null, "token": null, "pid": "1"}']
)
def test_a_record_of_other_types_is_none(state: StateDir, content: str) -> None:
    state.record.write_text(content)
    assert folders.read_record(state) == Record()


async def test_watchers_of_a_database_get_an_error_when_it_is_taken_away(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as made:
        made.execute("CREATE TABLE t (n)")
    stop = asyncio.Event()
    stop.set()
    await watch([tmp_path / "a.db"], stop)
    watching = asyncio.create_task(watch([tmp_path / "a.db"], asyncio.Event(), 0.01))
    await asyncio.sleep(0)
    os.rename(tmp_path / "a.db", tmp_path / "b.db")
    with pytest.raises(SteelyardError, match=r"a\.db was taken away while it was in use"):
        await watching


def test_of_the_errors_of_a_group_the_one_that_needs_a_person_is_said() -> None:
    errors = [DatabaseError("a.db: is closed"), ExceptionGroup("", [Refused("log.db is lost"), ValueError()])]
    with pytest.raises(Refused, match=r"log\.db is lost"), in_lines():
        raise ExceptionGroup("", errors)
    with pytest.raises(ExceptionGroup), in_lines():
        raise ExceptionGroup("a defect", [ValueError()])


def test_a_leader_that_lost_its_lease_ends_with_one_line() -> None:
    with pytest.raises(SteelyardError, match=r"could not renew .*: this process ends"), in_lines():
        raise LeaseLost("one could not renew steelyard-operator in 10 s")


@contextlib.contextmanager
def in_a_group(grouped: bool) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExceptionGroup("tasks", [error]) if grouped else error from None


@pytest.mark.parametrize("grouped", [False, True])
def test_a_port_that_another_process_has_is_a_line_with_its_name(grouped: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        expected = (
            rf"^port {port} of 127\.0\.0\.1: pid {os.getpid()} \(.*\) listens there already; end that one"
        )
        with pytest.raises(SteelyardError, match=expected), in_lines(), in_a_group(grouped):
            bind("127.0.0.1", port)
