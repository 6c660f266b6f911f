"""The wheels of this repository, built from the tree as it is, and unpacked into a folder."""

import os
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deploy.images.errors import ImageError
from deploy.images.layers import digest_file
from tests.release.build import Metadata, build, check_versions, projects, read_metadata
from tests.release.steps import ReleaseError
from tests.source import ROOT

EMBEDDED = "steelyard-local-kubernetes"
"""Distribution that only an image with the embedded Kubernetes has."""
PROGRAM = """\
#!/usr/bin/python3
import sys

from steelyard.cli.main import main

sys.exit(main())
"""
PROGRAM_PATH = "usr/local/bin/steelyard"


@dataclass(frozen=True)
class Source:
    """The tree that is built: its commit, whether it differs from that, and its time."""

    commit: str
    changed: bool
    seconds: int

    @property
    def revision(self) -> str:
        return f"{self.commit}-changed" if self.changed else self.commit

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)


@dataclass(frozen=True)
class Wheel:
    """One built wheel."""

    path: Path
    metadata: Metadata
    digest: str


def read_source() -> Source:
    """Return the state of the tree. Its time is SOURCE_DATE_EPOCH's, or that of the commit. Raises ImageError."""
    try:
        name, seconds = _git("log", "-1", "--format=%H %ct").split()
        changed = bool(_git("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError) as error:
        raise ImageError(f"the tree is read with git, which failed: {error}") from error
    return Source(name, changed, int(os.environ.get("SOURCE_DATE_EPOCH") or seconds))


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def build_wheels(source: Source, folder: Path) -> list[Wheel]:
    """Build the wheel of every package. Raises ImageError."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source.seconds)}
    try:
        paths = [build("wheel", project, folder, environment) for project in projects(ROOT)]
        wheels = [Wheel(path, read_metadata(path), digest_file(path)) for path in paths]
        check_versions([wheel.metadata for wheel in wheels])
    except ReleaseError as error:
        raise ImageError(str(error)) from error
    return wheels


def install(wheels: Sequence[Wheel], root: Path, modules: Path) -> None:
    """Unpack wheels into the folder of modules below a root, with the program `steelyard`."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel.path) as archive:
            archive.extractall(root / modules)
    for record in (root / modules).glob("*.dist-info/RECORD"):
        record.unlink()
    program = root / PROGRAM_PATH
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
