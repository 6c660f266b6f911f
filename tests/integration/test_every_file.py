"""Every file of a state folder is damaged in every way: the start is healthy, or ends with a line that names the file.

The files are those that a real `up` has left, so that a new one is in the table. Each case is a start of all parts that
read the folder, in a process of its own: without the network of Pods and the services' work, which
`test_lost_state.py` plays. A file of another platform is never taken.
"""

import asyncio
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from steelyard.local.administrator import administrator_token, signing_secret
from steelyard.local.engines import advice, engines
from steelyard.local.files import check_images, check_kubernetes, prepare
from steelyard.local.images import prepare_images
from steelyard.local.kept_process import _open_log
from steelyard.local.kubernetes import kubernetes_config
from steelyard.local.platform_identity import load_identity
from steelyard.local.process import SERVICES, START_THRESHOLDS, in_lines
from steelyard.local.secret_keys import secret_keys
from steelyard.local.sleeps import SleepRecord
from steelyard.local.state import Ready, StateDir, read_record, write_platform, write_ready, write_record
from steelyard.settings import load
from steelyard_common.errors import Refused, SteelyardError
from steelyard_common.lock import FileLock
from steelyard_kube.resource import JOBS
from steelyard_local_kubernetes.apiserver import server as apiserver
from steelyard_local_kubernetes.run import write_kubeconfig
from tests.integration.conftest import Machine, is_true, machine_at
from tests.integration.manifests import make_job

pytestmark = pytest.mark.e2e

NOBODY = 65534
WRITTEN_ANEW = ("hosts", "kubeconfig", "ready.json", "platform.json", ".lock", "-lock")
"""Ends of the names of files that no part reads before it has written them."""
NEVER_READ = ("logs/", "hosts.d/", "python/", "storage/", "backup/archive/", "pods/")
"""Folders whose files say nothing about rights: output of programs, and content that has digests of its own."""


async def start(state: StateDir) -> None:
    """Read and write what a start reads and writes, in the order of the supervisor, Kubernetes and the platform."""
    prepare(state)
    with ExitStack() as stack:
        for name in ("up", "kubernetes", "operator", "platform", *SERVICES):
            lock = stack.enter_context(FileLock(state.lock(name)))
            lock.write(str(os.getpid()))
            stack.enter_context(_open_log(state.log(name)))
        identity = load_identity(state)
        check_images(state.images, identity)
        write_record(state, read_record(state))
        state.platform.unlink(missing_ok=True)
        prepare_images(state, identity)
        SleepRecord(state).keep()
        check_kubernetes(state)
        config = apiserver.ApiServerConfig(
            database=state.database,
            pki=state.pki,
            tokens={state.token.read_text().strip(): "steelyard-admin"},
            platform=identity,
            pods=state.pods,
        )
        async with apiserver.serve(config) as server:
            write_kubeconfig(kubernetes_config(state), server.url, server.ca)
            settings = load(None, state.path)
            async with engines(settings, advice(state, None), state.path) as opened:
                token = await administrator_token(state, opened.accounts_database.accounts)
                secret_keys(state, settings)
                await signing_secret(state, settings, opened.accounts_database.accounts)
            write_platform(state, server.url, token)
            write_ready(state.ready, Ready(server.url, token, state.kubeconfig, os.getpid()))
        state.hosts.write_text("127.0.0.1 localhost\n")


def outcome(state: StateDir, user: int) -> tuple[int, str]:
    """Start in a process of its own; return its exit status, and what it said: nothing where all is well."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of a fork beside threads, none of which the child needs
        pid = os.fork()
    if pid == 0:
        said, status = "", 0
        # As a process of the platform: to search what a start makes for garbage takes a third of its time.
        gc.freeze()
        gc.set_threshold(*START_THRESHOLDS)
        try:
            if user != os.geteuid():
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            with in_lines():
                asyncio.run(start(state))
        except SteelyardError as error:
            said, status = str(error), error.exit_code
        except BaseException:  # noqa: BLE001 (it has to come to the parent)
            said, status = traceback.format_exc(), 1
        os.write(write, said.encode()[:60000])
        os._exit(status)
    os.close(write)
    with open(read, "rb") as end:
        text = end.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


@dataclass(frozen=True)
class Folders:
    """A folder that was used, as it was earlier, and another platform's."""

    used: Path
    earlier: Path
    other: Path

    def files(self) -> list[str]:
        paths = (path for path in self.used.rglob("*") if path.is_file() and not path.is_symlink())
        names = sorted(str(path.relative_to(self.used)) for path in paths)
        # All locks are of one class and hold a number: one stands for them.
        return [name for name in names if not name.endswith(".lock") or name == "up.lock"]


def play(machine: Machine, name: str) -> None:
    """Use everything once: an account, a secret, a dataset, a Pod."""
    asyncio.run(_play(machine, name))


async def _play(machine: Machine, name: str) -> None:
    machine.up()
    command = [sys.executable, "-m", "steelyard.cli.main", "account", "create", name]
    await asyncio.to_thread(
        subprocess.run, [*command, "--state-dir", str(machine.state.path)], check=True, capture_output=True
    )
    await machine.create(JOBS, make_job(name))
    await machine.until(JOBS, name, is_true("Complete"))
    machine.down()
    # The address of figures that nobody serves any more.
    assert sorted(machine.state.path.glob("*-metrics")) == []


@pytest.fixture(scope="module")
def folders() -> Iterator[Folders]:
    # Not below pytest's folder, which no other user may enter.
    # In memory where there is such a place: each case is a start, with many commits.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="steelyard-files-", dir=memory) as name:
        place = Path(name)
        place.chmod(0o755)
        made = Folders(place / "used", place / "earlier", place / "other")
        with machine_at(made.used) as machine:
            play(machine, "first")
            shutil.copytree(made.used, made.earlier, symlinks=True)
            play(machine, "second")
        with machine_at(made.other) as machine:
            play(machine, "other")
        # Once here: what a start imports late is there for all cases, also for a user who may not read this Python.
        shutil.copytree(made.used, place / "first", symlinks=True)
        asyncio.run(start(StateDir(place / "first")))
        yield made


Damage = Callable[[Path, Folders, str], None]


def deleted(path: Path, folders: Folders, file: str) -> None:
    path.unlink()


def halved(path: Path, folders: Folders, file: str) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path, folders: Folders, file: str) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 4
    path.write_bytes(content)


def of_another_platform(path: Path, folders: Folders, file: str) -> None:
    if (folders.other / file).is_file():
        shutil.copyfile(folders.other / file, path)


def older(path: Path, folders: Folders, file: str) -> None:
    if (folders.earlier / file).is_file():
        shutil.copyfile(folders.earlier / file, path)


def read_only(path: Path, folders: Folders, file: str) -> None:
    path.chmod(0o400)


def unreadable(path: Path, folders: Folders, file: str) -> None:
    path.chmod(0)


def a_folder(path: Path, folders: Folders, file: str) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: tuple[Damage, ...] = (
    deleted, halved, flipped, of_another_platform, older, read_only, unreadable, a_folder,
)  # fmt: skip


CONTENT = (halved, flipped, of_another_platform, older)
"""Damages of the content: a start that they end is refused, with its own status."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_file_with_a_damage_is_healed_or_named(folders: Folders, damage: Damage) -> None:
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    faults = []
    for file in folders.files():
        with tempfile.TemporaryDirectory(dir=folders.used.parent) as name:
            Path(name).chmod(0o755)
            if fault := fault_of(folders, damage, file, Path(name) / "state", user):
                faults.append(f"{file}: {fault}")
    assert faults == [], "\n\n".join(faults)


def fault_of(folders: Folders, damage: Damage, file: str, folder: Path, user: int) -> str:
    """Damage one file of a copy, and start; returns what is wrong with what comes of it."""
    shutil.copytree(folders.used, folder, symlinks=True)
    path = folder / file
    damage(path, folders, file)
    if user != os.geteuid():
        for place in (folder, *folder.rglob("*")):
            os.chown(place, user, user, follow_symlinks=False)
    foreign = path.read_bytes() if damage is of_another_platform else b""
    status, said = outcome(StateDir(folder), user)
    if "\n" in said:
        return f"more than a line: {said}"
    if said:
        if damage in CONTENT and status != Refused.exit_code:
            return f"status {status}: {said}"
        # A store is named by its folder, whose content it checks.
        named = any(str(folder / place) in said for place in (file, file.partition("/")[0]))
        return "" if named else f"is not named: {said}"
    stays = foreign and foreign != (folders.used / file).read_bytes() and path.read_bytes() == foreign
    known = file.startswith(NEVER_READ) or file.endswith(WRITTEN_ANEW)
    return "another platform's was taken" if stays and not known else ""
