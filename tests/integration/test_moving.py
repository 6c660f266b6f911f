"""Export and import on files: everything arrives, nothing is written over, and damaged files are named."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.local.engines import IMPORTED, engines, open_engines
from steelyard.local.files import prepare
from steelyard.local.moving import export_to, import_from
from steelyard.local.state import StateDir
from steelyard.settings import Settings, load
from steelyard_common.errors import Refused
from steelyard_schema.account import Identity
from tests.integration.moving import contents, go_on, use

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def steelyard(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "steelyard.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("installation")
    prepare(StateDir(folder))
    return folder, asyncio.run(use(load(None, folder)))


@pytest.mark.parametrize("name", ["all.tar", "folder"])
def test_an_installation_moves(installation: tuple[Path, str], tmp_path: Path, name: str) -> None:
    folder, token = installation
    before = asyncio.run(contents(load(None, folder), token))
    exported = steelyard("export", tmp_path / name, "--state-dir", folder)
    assert exported.returncode == 0, exported.stderr
    assert "40 entities" in exported.stdout
    assert "6 files of the storage, 1 accounts" in exported.stdout
    assert (tmp_path / name).stat().st_mode & 0o077 == 0, "it has the keys that sign tokens"
    other = tmp_path / "other"
    imported = steelyard("import", tmp_path / name, "--state-dir", other)
    assert imported.returncode == 0, imported.stderr
    after = asyncio.run(contents(load(None, other), token))
    for part in before:
        assert after[part] == before[part], part
    refused = steelyard("import", tmp_path / name, "--state-dir", other)
    assert refused.returncode == 3
    assert "is not empty" in refused.stderr
    # The old one and the new one go on in the same way.
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for file in copy.glob("*.db-shm"):
        file.unlink()
    went_on = asyncio.run(go_on(load(None, other)))
    assert went_on["changed"] == ["d10"]
    assert went_on["labels"] == {"late": "1"}
    assert went_on["quarantined"] == ["d9"]
    assert len(went_on["held"]) == 3, "the one that failed, and two that wait behind it"
    again = steelyard("export", tmp_path / f"again-{name}", "--state-dir", other)
    assert again.returncode == 0, again.stderr


def test_accounts_that_are_there_are_seen_before_anything_is_written(
    installation: tuple[Path, str], tmp_path: Path
) -> None:
    """A platform that was started on the new engines before the import has made one."""
    folder, _ = installation
    assert steelyard("export", tmp_path / "all.tar", "--state-dir", folder).returncode == 0
    other = tmp_path / "other"
    prepare(StateDir(other))
    asyncio.run(make_account(load(None, other)))
    refused = steelyard("import", tmp_path / "all.tar", "--state-dir", other)
    assert (refused.returncode, refused.stderr) == (
        3,
        "steelyard: the accounts database is not empty; nothing was changed\n",
    )
    assert [path for path in (other / "storage").rglob("*") if path.is_file()] == []


async def make_account(settings: Settings) -> None:
    async with open_engines(settings) as opened:
        await opened.accounts_database.accounts.create("me", Identity(), datetime.now(UTC))


def test_what_is_damaged_is_named(installation: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = installation
    assert steelyard("export", tmp_path / "p", "--state-dir", folder).returncode == 0
    assert steelyard("export", tmp_path / "p.tar", "--state-dir", folder).returncode == 0
    taken = steelyard("export", tmp_path / "p.tar", "--state-dir", folder)
    assert (taken.returncode, taken.stderr) == (2, f"steelyard: {tmp_path / 'p.tar'}: is there already\n")
    whole = (tmp_path / "p.tar").read_bytes()
    (tmp_path / "p.tar").write_bytes(whole[: len(whole) // 2])
    data = tmp_path / "p" / "storage" / "datasets" / "d1" / "data ü.parquet"
    faults = {
        tmp_path / "p.tar": "is damaged or cut short",
        data: "",
        tmp_path / "p" / "accounts.json.gz": "",
        tmp_path / "p" / "manifest.json": "",
    }
    for path in list(faults)[1:]:
        good = path.read_bytes()
        for bad in (good[:-1], bytes([good[0] ^ 1]) + good[1:], None):
            if bad is None:
                path.unlink()
            else:
                path.write_bytes(bad)
            refused = steelyard("import", tmp_path / "p", "--state-dir", tmp_path / "target")
            assert refused.returncode == 3, (path, refused.stderr)
            (line,) = refused.stderr.splitlines()
            assert str(path) in line
            path.write_bytes(good)
            if path != data:
                break
    cut = steelyard("import", tmp_path / "p.tar", "--state-dir", tmp_path / "target")
    assert cut.returncode == 3
    assert "p.tar" in cut.stderr
    assert len(cut.stderr.splitlines()) == 1
    assert not (tmp_path / "target" / "log.db").exists(), "nothing was begun"
    assert steelyard("import", tmp_path / "p", "--state-dir", tmp_path / "target").returncode == 0


class Cut(Exception):
    """End of an import, as if its process had been killed."""


def cut_at(step: str) -> Callable[[str], None]:
    """Return what ends an import when it says that this step begins."""

    def say(text: str) -> None:
        if text == step:
            raise Cut

    return say


async def start(folder: Path) -> None:
    """Open the engines as the platform does."""
    async with engines(load(None, folder), "", folder):
        pass


@pytest.mark.parametrize("step", ["the storage ...", "the log ..."])
async def test_an_import_that_was_cut_short_is_called_again_before_the_platform_starts(
    installation: tuple[Path, str], tmp_path: Path, step: str
) -> None:
    folder, token = installation
    await export_to(load(None, folder), tmp_path / "p", NOW, lambda text: None)
    other = tmp_path / "other"
    prepare(StateDir(other))
    with pytest.raises(Cut):
        await import_from(load(None, other), tmp_path / "p", NOW, cut_at(step))
    with pytest.raises(Refused, match="`steelyard import` was cut short; call it again"):
        await start(other)
    await import_from(load(None, other), tmp_path / "p", NOW, lambda text: None)
    await start(other)
    assert await contents(load(None, other), token) == await contents(load(None, folder), token)


async def test_an_import_whose_mark_alone_was_left_has_ended(
    installation: tuple[Path, str], tmp_path: Path
) -> None:
    folder, token = installation
    await export_to(load(None, folder), tmp_path / "p", NOW, lambda text: None)
    other = tmp_path / "other"
    prepare(StateDir(other))
    await import_from(load(None, other), tmp_path / "p", NOW, lambda text: None)
    mark = other / "storage" / IMPORTED
    mark.write_text("{}")
    await start(other)
    assert not mark.exists()
    assert await contents(load(None, other), token) == await contents(load(None, folder), token)
