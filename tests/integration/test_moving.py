"""Export and import on files: everything arrives, nothing is written over, and what is damaged is named."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.local.state import StateDir, prepare
from steelyard.settings import load
from tests.integration.moving import contents, go_on, use


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
