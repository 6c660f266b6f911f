"""The chart's Jobs of backup and restore: their own commands, on their own settings, with the paths of this machine."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.accounts.secrets import Secrets, make_keys, read_keys
from steelyard.broker.log import STATE
from steelyard.local.engines import open_engines
from steelyard.local.files import prepare
from steelyard.local.state import StateDir
from steelyard.settings import Settings, load
from steelyard_common.types import Json
from tests.engines.chart.helm import template
from tests.integration.moving import contents, go_on, use

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Installation:
    """The state folder and the keys that stand for the claim and the Secret of one installation."""

    def __init__(self, folder: Path, values: Json, keys: Path) -> None:
        self.state, self.objects = folder / "claim", template(values)
        self._paths = {
            "/etc/steelyard/steelyard.toml": str(folder / "steelyard.toml"),
            "/var/lib/steelyard": str(self.state),
            "/etc/steelyard-keys/secret-keys": str(keys),
        }
        folder.mkdir()

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Call the command of the Job, with the settings of the ConfigMap that its Pod mounts."""
        [job] = [
            obj
            for obj in self.objects
            if obj["kind"] in ("Job", "CronJob") and obj["metadata"]["name"] == name
        ]
        spec = job["spec"].get("jobTemplate", job)["spec"] if job["kind"] == "CronJob" else job["spec"]
        pod = spec["template"]["spec"]
        [mounted] = [volume["configMap"]["name"] for volume in pod["volumes"] if volume["name"] == "settings"]
        self.write_settings(mounted)
        arguments = [self._paths.get(word, word) for word in pod["containers"][0]["args"]]
        return subprocess.run(
            [sys.executable, "-m", "steelyard.cli.main", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def write_settings(self, config_map: str = "steelyard-settings") -> Settings:
        [text] = [
            obj["data"]["steelyard.toml"]
            for obj in self.objects
            if obj["kind"] == "ConfigMap" and obj["metadata"]["name"] == config_map
        ]
        for path, here in self._paths.items():
            text = text.replace(path, here)
        file = Path(self._paths["/etc/steelyard/steelyard.toml"])
        file.write_text(text)
        return load(file, self.state)


async def set_secret(settings: Settings, keys: Path) -> None:
    async with open_engines(settings) as opened:
        await Secrets(opened.accounts_database.secrets, read_keys(keys)).set("acme", "hub", "s3cret", NOW)


async def read_secret(settings: Settings, keys: Path) -> str:
    async with open_engines(settings) as opened:
        value = await Secrets(opened.accounts_database.secrets, read_keys(keys)).value("acme", "hub")
        return value.get_secret_value() if value else ""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "secret-keys")
    return tmp_path / "secret-keys"


def values(tmp_path: Path, name: str, **more: Json) -> Json:
    engines = {"backup": f"file://{tmp_path}/{name}-backup", "mirror": f"file://{tmp_path}/{name}-mirror"}
    return {"engines": engines, "backup": {"schedule": "15 3 * * *"}, **more}


def restoring(tmp_path: Path) -> Json:
    """Values of the chart for a second installation, which is filled from the mirror of the first."""
    return values(
        tmp_path,
        "new",
        restore={
            "from": f"file://{tmp_path}/old-mirror/backup",
            "files": f"file://{tmp_path}/old-mirror/storage",
        },
        secretKeys={"existingSecret": "keys"},
        persistence={"existingClaim": "claim"},
    )


def test_what_the_backup_job_writes_the_restore_job_restores(tmp_path: Path, keys: Path) -> None:
    old = Installation(tmp_path / "old", values(tmp_path, "old"), keys)
    refused = old.run("steelyard-backup")
    assert refused.returncode == 3
    assert "there is no installation yet" in refused.stderr
    settings = old.write_settings()
    prepare(StateDir(old.state))
    token = asyncio.run(use(settings))
    asyncio.run(set_secret(settings, keys))
    before = asyncio.run(contents(settings, token))
    written = old.run("steelyard-backup")
    assert written.returncode == 0, written.stderr
    assert "a copy of 1 accounts" in written.stdout
    assert b"signing_keys" not in b"".join(
        path.read_bytes() for path in tmp_path.glob("old-backup/accounts/*")
    )
    again = old.run("steelyard-backup")
    assert again.returncode == 0, again.stderr

    new = Installation(tmp_path / "new", restoring(tmp_path), keys)
    restored = new.run("steelyard-restore")
    assert restored.returncode == 0, restored.stderr
    assert "1 accounts restored" in restored.stdout
    settings = new.write_settings()
    after = asyncio.run(contents(settings, token))
    for part in ("token", "accounts", "view", "storage"):
        assert after[part] == before[part], part
    assert len(after["view"]) > 30
    assert {key: value for key, (value, _, _) in after["states"].items()} == {
        key: value for key, (value, _, _) in before["states"].items()
    }, STATE
    assert asyncio.run(read_secret(settings, keys)) == "s3cret"
    asyncio.run(go_on(settings))
    # The backup of the new installation is its own.
    assert new.run("steelyard-backup").returncode == 0


def test_an_installation_that_is_in_use_is_not_restored(tmp_path: Path, keys: Path) -> None:
    old = Installation(tmp_path / "old", values(tmp_path, "old"), keys)
    prepare(StateDir(old.state))
    asyncio.run(use(old.write_settings()))
    assert old.run("steelyard-backup").returncode == 0
    new = Installation(tmp_path / "new", restoring(tmp_path), keys)
    prepare(StateDir(new.state))
    token = asyncio.run(use(new.write_settings()))
    before = asyncio.run(contents(new.write_settings(), token))
    refused = new.run("steelyard-restore")
    assert refused.returncode == 3
    assert "is not empty" in refused.stderr
    assert asyncio.run(contents(new.write_settings(), token)) == before


def test_a_backup_is_not_restored_with_the_keys_of_another_installation(tmp_path: Path, keys: Path) -> None:
    old = Installation(tmp_path / "old", values(tmp_path, "old"), keys)
    prepare(StateDir(old.state))
    asyncio.run(use(old.write_settings()))
    assert old.run("steelyard-backup").returncode == 0
    make_keys(tmp_path / "others")
    new = Installation(tmp_path / "new", restoring(tmp_path), tmp_path / "others")
    refused = new.run("steelyard-restore")
    assert refused.returncode == 3
    assert "cannot be read with the secret keys" in refused.stderr
    assert not (tmp_path / "new" / "claim" / "storage" / "datasets").exists(), "nothing was copied"


def test_a_backup_of_another_installation_is_not_added_to(tmp_path: Path, keys: Path) -> None:
    old = Installation(tmp_path / "old", values(tmp_path, "old"), keys)
    prepare(StateDir(old.state))
    asyncio.run(use(old.write_settings()))
    other = Installation(tmp_path / "other", values(tmp_path, "old"), keys)
    prepare(StateDir(other.state))
    (tmp_path / "old-backup").rename(tmp_path / "aside")
    asyncio.run(use(other.write_settings()))
    (tmp_path / "aside").rename(tmp_path / "old-backup-first")
    refused = old.run("steelyard-backup")
    assert refused.returncode == 3
    assert "belongs to log" in refused.stderr
