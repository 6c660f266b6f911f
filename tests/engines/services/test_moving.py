"""An installation moves from files to Kafka, PostgreSQL, MongoDB's protocol and S3, is restored there, and moves
back.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.local.engines import open_engines
from steelyard.local.files import prepare
from steelyard.local.state import StateDir
from steelyard.settings import Settings, load
from tests.engines.services.kafka import kafka
from tests.engines.services.mongodb import mongodb
from tests.engines.services.postgresql import postgresql
from tests.engines.services.s3 import client_environment, s3
from tests.integration.moving import contents, go_on, use
from tests.integration.test_backups import back_up, lose


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with kafka(1) as log, postgresql() as database, s3() as bucket, mongodb() as documents:
        for name, value in client_environment(bucket).items():
            monkeypatch.setenv(name, value)
        path = tmp_path / "steelyard.toml"
        path.write_text(
            f'log = "{log.address}/moved"\naccounts = "{database.address}"\nview = "{documents.address}"\n'
            'storage = "s3://steelyard/moved"\nbackup = "s3://steelyard/backup"\n'
        )
        yield path


def steelyard(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "steelyard.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


async def archive(settings: Settings) -> None:
    async with open_engines(settings) as opened:
        await back_up(opened.log, opened.backup)


@pytest.mark.timeout(1800)
def test_there_and_back(settings_file: Path, tmp_path: Path) -> None:
    here, there, back = tmp_path / "here", tmp_path / "there", tmp_path / "back"
    prepare(StateDir(here))
    token = asyncio.run(use(load(None, here)))
    before = asyncio.run(contents(load(None, here), token))
    steelyard("export", tmp_path / "one.tar", "--state-dir", here)
    steelyard("config", "init", "--settings", settings_file, "--state-dir", there)
    steelyard("import", tmp_path / "one.tar", "--settings", settings_file, "--state-dir", there)
    real = load(settings_file, there)
    after = asyncio.run(contents(real, token))
    for part in before:
        assert after[part] == before[part], part
    assert asyncio.run(go_on(real))["changed"] == ["d10"]
    # The bucket alone brings back what a lost log had.
    asyncio.run(archive(real))
    kept = asyncio.run(contents(real, token))
    steelyard("export", tmp_path / "two.tar", "--settings", settings_file, "--state-dir", there)
    steelyard("import", tmp_path / "two.tar", "--state-dir", back)
    returned = asyncio.run(contents(load(None, back), token))
    for part in ("token", "accounts", "storage", "states"):
        assert returned[part] == kept[part], part
    drilled = steelyard("backup", "drill", "--settings", settings_file, "--state-dir", there)
    assert "1 changed, and are not in the view yet" in drilled
    lose(there)
    assert "40 entities in the backup" in steelyard(
        "restore", "--dry-run", "--settings", settings_file, "--state-dir", there
    )
