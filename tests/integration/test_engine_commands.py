"""Commands on engines that cannot be used: one line on standard error, no traceback, and no password anywhere."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from steelyard.local.files import prepare
from steelyard.local.state import StateDir
from tests.integration.test_backups import use

pytest.importorskip("pymongo")


def steelyard(
    folder: Path, settings: str, *arguments: str, said: str = ""
) -> "subprocess.CompletedProcess[str]":
    file = folder / "steelyard.toml"
    file.write_text(settings)
    options = ["--state-dir", str(folder / "state"), "--settings", str(file)]
    command = [sys.executable, "-m", "steelyard.cli.main", *arguments, *options]
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=300, check=False)
    assert "secret" not in done.stdout + done.stderr
    return done


@pytest.fixture
def away() -> Iterator[str]:
    """Address of a view at which no server listens."""
    with socket.socket() as taken:  # bound and not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        yield f"mongodb://user:secret@127.0.0.1:{taken.getsockname()[1]}/view"


def check_one_line(done: "subprocess.CompletedProcess[str]", start: str) -> None:
    (line,) = done.stderr.splitlines()
    assert line.startswith(start), line
    assert done.returncode == 1


def test_a_drill_without_the_view_is_one_line(tmp_path: Path, away: str) -> None:
    asyncio.run(use(tmp_path / "state"))
    done = steelyard(tmp_path, f'view = "{away}"', "backup", "drill")
    check_one_line(done, "steelyard: view mongodb://user:***@127.0.0.1:")


def test_an_init_without_the_view_is_one_line(tmp_path: Path, away: str) -> None:
    done = steelyard(tmp_path, f'view = "{away}"', "config", "init")
    check_one_line(done, "steelyard: view mongodb://user:***@127.0.0.1:")


def test_an_export_from_a_storage_of_an_unknown_kind_is_one_line(tmp_path: Path) -> None:
    prepare(StateDir(tmp_path / "state"))
    done = steelyard(tmp_path, 'storage = "s4://bucket"', "export", str(tmp_path / "x.tar"))
    check_one_line(done, "steelyard: storage URL 's4://bucket': the scheme should be one of ")


def test_a_restore_asks_without_a_password(tmp_path: Path, away: str) -> None:
    done = steelyard(tmp_path, f'view = "{away}"', "restore", said="n\n")
    assert "and mongodb://user:***@127.0.0.1:" in done.stdout
    assert done.returncode == 1
    assert "nothing was changed" in done.stdout


def test_new_engines_are_refused_where_the_state_folder_has_an_installation(tmp_path: Path) -> None:
    """The platform would start empty, as if everything were lost."""
    asyncio.run(use(tmp_path / "state"))
    new = tmp_path / "new"
    names = {name: f"sqlite:{new / name}.db" for name in ("log", "view", "accounts")}
    names |= {name: (new / name).as_uri() for name in ("storage", "backup")}
    settings = "\n".join(f'{name} = "{address}"' for name, address in names.items())
    refused = steelyard(tmp_path, settings, "service", "aggregator")
    (line,) = refused.stderr.splitlines()
    assert f"{tmp_path / 'state' / 'log.db'} has an installation, which does not move by itself" in line
    assert refused.returncode == 3
    # A file that is left aside is no obstacle to the import, after which the log is not empty any more.
    steelyard(tmp_path, "", "export", str(tmp_path / "all.tar"))
    assert steelyard(tmp_path, settings, "import", str(tmp_path / "all.tar")).returncode == 0


def test_two_inits_at_once_do_no_harm_and_may_be_repeated(tmp_path: Path) -> None:
    """Files need no preparation; `tests/engines/services/accounts/test_migrations.py` has PostgreSQL."""
    for _ in range(2):
        with ThreadPoolExecutor() as threads:
            calls = [threads.submit(steelyard, tmp_path, "", "config", "init") for _ in range(2)]
        for done in (call.result() for call in calls):
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith("nothing to make")
