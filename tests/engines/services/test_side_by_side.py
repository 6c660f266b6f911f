"""Two runs of the tests at once, each with all engines; one is killed, and nothing of it stays."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import processes_of

ROOT = Path(__file__).parents[3]
SECONDS = 300.0
RUN = """
import json, sys
from pathlib import Path
from tests.engines.services import together
with together.services() as services:
    credentials = together.write_settings(Path(sys.argv[1]), services)
    print(json.dumps([dict(credentials), {s.address: str(s.folder) for s in services.values()}]), flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Run:
    """A process that has started all engines, and where they are."""

    process: subprocess.Popen[str]
    settings: Path
    credentials: Mapping[str, str]
    folders: Mapping[str, Path]

    def config(self, verb: str) -> str:
        """Run `steelyard config`; return what it says, which must be good."""
        command = [
            sys.executable,
            "-m",
            "steelyard.cli.main",
            "config",
            verb,
            "--settings",
            str(self.settings),
        ]
        state = ["--state-dir", str(self.settings.parent / "state")]
        environment = os.environ | self.credentials
        done = subprocess.run(
            [*command, *state], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def run(folder: Path) -> Iterator[Run]:
    """A run, in a process group of its own, whose temporary files are in a folder."""
    folder.mkdir()
    (folder / "tmp").mkdir()
    command = [sys.executable, "-c", RUN, str(folder / "steelyard.toml")]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder / "tmp")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        began = time.monotonic()
        credentials, folders = json.loads(process.stdout.readline())
        print(f"all engines answer after {time.monotonic() - began:.0f} s")
        yield Run(process, folder / "steelyard.toml", credentials, {a: Path(f) for a, f in folders.items()})


def left(folder: Path, folders: Mapping[str, Path]) -> list[str]:
    """Return the traces of a run: processes, temporary files, and data elsewhere."""
    files = [str(path) for path in (folder / "tmp").iterdir()]
    return processes_of(folder) + files + [str(path) for path in folders.values() if path.exists()]


@pytest.mark.timeout(1800)
def test_two_runs_share_nothing_and_nothing_stays_of_one_that_is_killed(tmp_path: Path) -> None:
    with run(tmp_path / "one") as one, run(tmp_path / "other") as other:
        assert set(one.folders).isdisjoint(other.folders)
        assert "topics: made" in one.config("init")
        assert "topics: made" in other.config("init"), "the other run's servers have what the first one made"
        os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()
        end = time.monotonic() + SECONDS
        while there := left(tmp_path / "one", one.folders):
            assert time.monotonic() < end, there
            time.sleep(0.1)
        other.config("check")
    assert left(tmp_path / "other", other.folders) == []
