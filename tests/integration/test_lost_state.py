"""The files of a folder of `steelyard up` are lost or damaged: it goes on, or says in a line which one and what to do.

The cases outside of `make soak` are chosen by STEELYARD_FILES_SEED; each is a start of everything.
"""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard.local.files import prepare
from steelyard.local.leftovers import living
from steelyard.local.state import Ready, StateDir, read_record, write_ready
from steelyard_common.errors import Refused
from steelyard_kube.resource import JOBS
from tests.integration.conftest import Machine, is_true, processes_of
from tests.integration.manifests import make_job
from tests.integration.test_lost_files import cut_in_half, emptied, taken_away

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("STEELYARD_FILES_SEED", "1"))
FEW = 2
DERIVED = (
    "kubeconfig", "supervisor.json", "hosts", "view.db", "pki/ca.key", "pki/ca.crt", "pki/server.key",
    "pki/server.crt", "pki/token", "pki/api-token", "pki/signing-secret",
)  # fmt: skip
REFUSED = ("kubernetes.db", "log.db", "accounts.db")
DAMAGES = {damage.__name__: damage for damage in (taken_away, emptied, cut_in_half)}
CASES = [(file, damage) for file in (*DERIVED, *REFUSED, "images.toml") for damage in DAMAGES]
CHOSEN = random.Random(SEED).sample(CASES, FEW)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on which everything ran, with an account."""
    machine = Machine(tmp_path_factory.mktemp("used") / "state")
    try:
        machine.up()
        steelyard("account", "create", "alice", folder=machine.state.path)
    finally:
        machine.down()
    return machine.state.path


def steelyard(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "steelyard.cli.main", *words, "--state-dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def _mark(case: tuple[str, str]) -> tuple[pytest.MarkDecorator, ...]:
    return () if case in CHOSEN else (pytest.mark.soak,)


@pytest.mark.parametrize(
    ("file", "damage"), [pytest.param(*case, id="-".join(case), marks=_mark(case)) for case in CASES]
)
def test_a_file_of_the_folder_is_lost_or_damaged(used: Path, tmp_path: Path, file: str, damage: str) -> None:
    machine = Machine(tmp_path / "state")
    shutil.copytree(used, machine.state.path)
    DAMAGES[damage](machine.state.path / file, tmp_path)
    try:
        if file in REFUSED or (file == "images.toml" and damage == "cut_in_half"):
            check_refused(machine, file)
        else:
            machine.up()
            with machine.client() as client:
                assert "alice" in [account.name for account in client.accounts.query()]
    finally:
        machine.down()
    assert processes_of(machine.state.path) == []


SWAPPED = [
    ("kubernetes.db", "log.db"), ("log.db", "accounts.db"), ("accounts.db", "view.db"), ("view.db", "kubernetes.db"),
    ("supervisor.json", "images.toml"), ("pki/token", "pki/api-token"), ("pki/ca.key", "pki/server.key"),
    ("pki/signing-secret", "pki/ca.crt"), ("kubeconfig", "hosts"),
]  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize(("file", "other"), SWAPPED)
def test_two_files_of_the_folder_are_swapped(used: Path, tmp_path: Path, file: str, other: str) -> None:
    machine = Machine(tmp_path / "state")
    shutil.copytree(used, machine.state.path)
    swap(machine.state.path / file, machine.state.path / other)
    contents = {(machine.state.path / name).read_bytes() for name in (file, other)}
    refused = {file, other} & {*REFUSED, "images.toml"}
    try:
        if not refused:
            machine.up()
            return
        with pytest.raises(Refused) as error:
            machine.up()
        assert any(str(machine.state.path / name) in str(error.value) for name in refused)
        assert contents <= {path.read_bytes() for path in machine.state.path.iterdir() if path.is_file()}
    finally:
        machine.down()


def swap(one: Path, other: Path) -> None:
    third = one.with_name("third")
    one.rename(third)
    other.rename(one)
    third.rename(other)


def check_refused(machine: Machine, file: str) -> None:
    content = read(machine.state.path / file)
    with pytest.raises(Refused) as refused:
        machine.up()
    line = str(refused.value)
    assert "\n" not in line
    assert str(machine.state.path / file) in line
    assert read(machine.state.path / file) == content
    if file != "images.toml":
        assert "steelyard " in line
        shown = steelyard("status", folder=machine.state.path)
        assert shown.returncode == 1
        assert line in shown.stdout.replace(" refused to work", "")


def read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def test_an_empty_database_of_kubernetes_may_begin(used: Path, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    shutil.copytree(used, folder)
    cut_in_half(folder / "kubernetes.db", tmp_path)
    content = (folder / "kubernetes.db").read_bytes()
    try:
        done = steelyard("up", "--detach", "--new-kubernetes", folder=folder)
        assert done.returncode == 0, done.stderr
    finally:
        Machine(folder).down()
    assert [path.read_bytes() for path in folder.glob("kubernetes.db.aside-????????")] == [content]


def test_a_log_that_is_taken_away_while_it_runs_is_noticed_and_comes_back(used: Path, tmp_path: Path) -> None:
    """The platform ends within seconds, `status` says why, and the backup brings the log back."""
    machine = Machine(tmp_path / "state")
    shutil.copytree(used, machine.state.path)
    try:
        machine.up()
        (machine.state.path / "log.db").rename(tmp_path / "log.db")
        wait_for_refusal(machine)
        shown = steelyard("status", folder=machine.state.path)
        assert "REFUSED     platform: log sqlite:" in shown.stdout
        machine.down()
        done = steelyard("log", "restore", "--yes", folder=machine.state.path)
        assert done.returncode == 0, done.stderr
        assert "is accepted from epoch 2 on" in done.stdout
        machine.up()
    finally:
        machine.down()
    assert steelyard("log", "status", folder=machine.state.path).returncode == 0


async def test_pods_that_run_outlive_a_log_that_is_refused(machine: Machine, tmp_path: Path) -> None:
    """The next `up` adopts the Pods once the right file is back."""
    trace, go = tmp_path / "trace", tmp_path / "go"
    ready = machine.up()
    script = f"echo ran >> {trace}; while [ ! -e {go} ]; do sleep 0.05; done"
    await machine.create(JOBS, make_job("long", script))
    await machine.until(JOBS, "long", lambda job: trace.exists())
    children = list(read_record(machine.state).children.values())
    os.kill(ready.pid, signal.SIGKILL)
    while living(children):  # noqa: ASYNC110  (not our children)
        await asyncio.sleep(0.05)
    hide(machine.state.path, tmp_path / "aside")
    with pytest.raises(Refused, match="log"):
        machine.up()
    assert processes_of(machine.state.path), "the Pod went too"
    hide(tmp_path / "aside", machine.state.path)
    machine.up()
    go.touch()
    await machine.until(JOBS, "long", is_true("Complete"))
    assert trace.read_text() == "ran\n"


def hide(folder: Path, other: Path) -> None:
    """Move the log from one folder to the other."""
    other.mkdir(exist_ok=True)
    for path in folder.glob("log.db*"):
        path.rename(other / path.name)


def wait_for_refusal(machine: Machine) -> None:
    until = time.monotonic() + 60
    while "platform" not in read_record(machine.state).refusals:
        assert time.monotonic() < until, "nobody noticed"
        time.sleep(0.1)


READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def on_read_only(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command where the folder's file system is read-only; only for this process."""
    command = [sys.executable, "-m", "steelyard.cli.main", *words, "--state-dir", str(folder)]
    unshare = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", str(folder)]
    return subprocess.run([*unshare, *command], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.root
@pytest.mark.parametrize("words", ["up", "up --detach", "down", "status", "get datasets", "log status"])
def test_a_folder_that_cannot_be_written_is_named_in_a_line(tmp_path: Path, words: str) -> None:
    folder = tmp_path / "state"
    prepare(StateDir(folder))
    (folder / "up.lock").touch()
    write_ready(folder / "ready.json", Ready(None, None, folder / "kubeconfig", 0))
    done = on_read_only(folder, *words.split())
    assert "Traceback" not in done.stderr
    assert str(folder) in done.stdout + done.stderr
    if words not in ("status", "get datasets"):  # which only look
        assert "Read-only file system" in done.stderr
        assert done.stderr.count("\n") == 1


FOREIGN = {
    "up": "holds other things (notes.txt)",
    "down": "it is not a state folder",
    "status": "it is not a state folder",
}


@pytest.mark.parametrize(("words", "said"), [*FOREIGN.items(), ("log status", "it is not a state folder")])
def test_a_folder_of_something_else_stays_as_it_is(tmp_path: Path, words: str, said: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = steelyard(*words.split(), folder=tmp_path)
    assert said in done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_of_a_newer_version_is_refused(used: Path, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    shutil.copytree(used, folder)
    with contextlib.closing(sqlite3.connect(folder / "log.db")) as newer:
        newer.execute("PRAGMA user_version = 99")
    done = steelyard("up", "--detach", folder=folder)
    assert done.returncode == Refused.exit_code
    assert "which is newer than" in done.stderr
    assert done.stderr.count("\n") == 1
