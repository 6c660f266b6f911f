"""Builds the distributions of a commit: of every package and of `steelyard` a source archive, and from it the wheel."""

import email
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.packages.package import requirement_name
from tests.release.steps import ReleaseError, run
from tests.source import ROOT

HATCHLING = (sys.executable, "-m", "hatchling", "build")


@dataclass(frozen=True)
class Commit:
    """The commit that is released."""

    name: str
    seconds: int
    """Time of the commit, since 1970."""


def read_commit(root: Path = ROOT) -> Commit:
    """Return the commit of a tree in which nothing else lies; raise ReleaseError for another one."""
    if changed := git(root, "status", "--porcelain").decode():
        raise ReleaseError(f"the tree differs from its commit; commit or remove first:\n{changed.rstrip()}")
    name, seconds = git(root, "log", "-1", "--format=%H %ct").split()
    return Commit(name.decode(), int(seconds))


def git(root: Path, *words: str) -> bytes:
    return subprocess.run(("git", *words), cwd=root, check=True, stdout=subprocess.PIPE).stdout


def export(commit: Commit, folder: Path, root: Path = ROOT) -> Path:
    """Lay the files of the commit, and no others, into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    unpack = ("tar", "--extract", "--directory", folder)
    subprocess.run(unpack, input=git(root, "archive", commit.name), check=True)
    return folder


def projects(tree: Path) -> list[Path]:
    """Return the folders of all projects in a tree."""
    return [tree, *sorted(path.parent for path in tree.glob("packages/*/pyproject.toml"))]


@dataclass(frozen=True)
class Metadata:
    """Metadata of a built distribution."""

    name: str
    version: str
    requirements: tuple[str, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the distributions that it or one of its extras needs, without its own."""
        names = {requirement_name(line) for line in self.requirements}
        return tuple(sorted(names - {self.name}))


def read_metadata(wheel: Path) -> Metadata:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(archive.read(name))
    return Metadata(fields["Name"], fields["Version"], tuple(fields.get_all("Requires-Dist", ())))


def check_versions(distributions: Sequence[Metadata]) -> str:
    """Return the version of all; raise ReleaseError where one has another version, or needs one of ours in another."""
    versions = {one.name: one.version for one in distributions}
    version, *others = {*versions.values()}
    if others:
        raise ReleaseError(f"the versions differ: {versions}")
    needed = {line.partition(";")[0].strip() for one in distributions for line in one.requirements}
    ours = {line for line in needed if re.match(r"steelyard\b", line)}
    if loose := sorted(
        line for line in ours if not re.fullmatch(rf"(steelyard\[.*\]|.*=={re.escape(version)})", line)
    ):
        raise ReleaseError(f"needed in a version other than {version}: {', '.join(loose)}")
    return version


def build_all(tree: Path, dist: Path, commit: Commit) -> list[Path]:
    """Build every project into the folder: a source archive, and from that the wheel, which equals that of the tree."""
    built: list[Path] = []
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(commit.seconds)}
    for project in projects(tree):
        archive = build("sdist", project, dist, environment)
        unpacked = dist.parent / "unpacked"
        unpacked.mkdir(exist_ok=True)
        subprocess.run(("tar", "--extract", "--file", archive, "--directory", unpacked), check=True)
        source = unpacked / archive.name.removesuffix(".tar.gz")
        wheel = build("wheel", source, dist, environment)
        if build("wheel", project, dist.parent / "direct", environment).read_bytes() != wheel.read_bytes():
            raise ReleaseError(f"{wheel.name}: the wheel of the source archive differs from that of the tree")
        built += [archive, wheel]
    return sorted(built)


def build(
    target: Literal["sdist", "wheel"], project: Path, dist: Path, environment: Mapping[str, str]
) -> Path:
    before = {*dist.glob("*")}
    run(target, *HATCHLING, "-t", target, "-d", dist, at=project, environment=environment)
    (built,) = {*dist.glob("*")} - before
    return built
