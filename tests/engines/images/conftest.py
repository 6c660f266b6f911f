"""The images under test, made once from the tree as it is."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.images.archive import unpack
from steelyard_common.types import Json
from tests.engines.node.cluster import ROOT

NAMES = ("operator", "platform")


@dataclass(frozen=True)
class Archives:
    """Images of one run of the program."""

    folder: Path

    def listed(self, name: str) -> Json:
        """Return the reference and the digest of an image."""
        images: dict[str, Json] = json.loads((self.folder / "images.json").read_text())
        return images[name]

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.tar"


def make(folder: Path, *names: str) -> Archives:
    command = [sys.executable, "-m", "deploy.images", *names, "--output", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return Archives(folder)


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    return make(tmp_path_factory.mktemp("archives"), *NAMES)


@pytest.fixture(scope="session", params=NAMES)
def root(
    archives: Archives, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Path:
    """Unpack an image; owned by root, as on a node."""
    name: str = request.param
    folder = tmp_path_factory.mktemp(name)
    unpack(archives.path(name), folder)
    folder.chmod(0o755)
    return folder
