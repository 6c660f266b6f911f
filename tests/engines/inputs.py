"""Inputs of a suite: the files of the tree on which its outcome depends, and their digest.

A suite names its own files and folders. The modules that these import are inputs too, and so is each module that a file
names in any other way, because it may begin a process by that name. Too many inputs cost time; one too few would hide
a failure.
"""

import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

ALL = "."
"""Path of the whole tree."""
COMMON = (
    "conftest.py",
    "deploy/chart/files/crds",
    "deploy/policies",
    "deploy/rights.py",
    "examples",
    "pyproject.toml",
    "requirements",
    "tests/__init__.py",
    "tests/conftest.py",
    "tests/engines/__main__.py",
    "tests/leftovers.py",
)
"""Paths on which every suite depends, whatever it names."""
NO_INPUTS = frozenset({"CHANGELOG.md", "tests/engines/passed.json"})
"""Files that change with every change, and that no test reads."""
NAME = re.compile(r"\b(?:steelyard\w*|tests)(?:\.\w+)+\.?")
"""A dotted name; one that ends with a dot is the beginning of names that are made while the program runs."""
SOURCE = re.compile(r"(?:packages/[^/]+/)?src/")
PROJECT = re.compile(r"(?:packages/[^/]+/)?pyproject\.toml")
FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*import[ \t]+(\w+)(?![\w.])", re.MULTILINE)


class Tree:
    """The files of a work tree: those that git tracks, and new ones that it does not ignore."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """All files, relative to the root, in their order. Raises CalledProcessError where there is no repository."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=self._root, capture_output=True, text=True, check=True).stdout
        return tuple(sorted(path for path in set(listing.split("\0")) if (self._root / path).is_file()))

    def inputs(self, own: Iterable[str]) -> frozenset[str]:
        """Return the files on which a suite with these files and folders depends."""
        files = {path for path in self.paths if any(_is_below(path, folder) for folder in own)}
        files |= self._reach(files)
        # What a module reads from its own folder or below it: schemas, pages, sources in other languages.
        folders = {str(Path(path).parent) for path in files if SOURCE.match(path)} - self._roots
        data = {
            path
            for path in self.paths
            if not path.endswith(".py") and any(_is_below(path, folder) for folder in folders)
        }
        common = {path for path in self.paths if any(_is_below(path, folder) for folder in COMMON)}
        common |= {*self._projects, *(f"{folder}/__init__.py" for folder in self._roots)}
        return frozenset((files | data | common) - NO_INPUTS)

    def digest(self, own: Iterable[str]) -> str:
        """Return the digest of a suite's inputs: their paths and contents, and the version of Python."""
        digest = hashlib.sha256(f"Python {sys.version_info.major}.{sys.version_info.minor}\n".encode())
        for path in sorted(self.inputs(own)):
            digest.update(f"{path}\0{self._digests[path]}\n".encode())
        return digest.hexdigest()

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {path: hashlib.sha256((self._root / path).read_bytes()).hexdigest() for path in self.paths}

    def _reach(self, files: Iterable[str]) -> set[str]:
        """Return the modules that these files name, those that they name in turn, and so on."""
        reached: set[str] = set()
        waiting = [path for path in files if path.endswith(".py")]
        while waiting:
            names = self._references(waiting.pop()) - reached
            reached |= names
            waiting += names
        return reached

    @cache  # noqa: B019 - a tree lives as long as the program
    def _references(self, path: str) -> frozenset[str]:
        """Return the files of the modules that one file names, and of the packages that contain these."""
        text = (self._root / path).read_text()
        names = set(NAME.findall(text))
        for module, listed in FROM.findall(text):
            names |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", listed))}
        names.update(IMPORT.findall(text))
        if "entry_points(" in text:  # rubrics and other additions, which are found by their names
            names |= self._entry_points
        if "import_module(" in text:  # usually one beside it
            names.add(_module_name(str(Path(path).parent)) + ".")
        files = {file for name in names for file in self._files(name)}
        return frozenset(files)

    def _files(self, name: str) -> set[str]:
        """Return the files that importing a name reads; of a name that ends with a dot, the whole package.

        The outermost package is not among them, unless it is the name: it may name all others, to load them when
        they are used.
        """
        parts = name.rstrip(".").split(".")
        prefixes = {".".join(parts[: length + 1]) for length in range(1, len(parts))} | {name}
        files = {self._modules[prefix] for prefix in prefixes if prefix in self._modules}
        if name.endswith("."):
            files |= {path for module, path in self._modules.items() if f"{module}.".startswith(name)}
        return files

    @cached_property
    def _roots(self) -> set[str]:
        """Folders of the outermost packages."""
        files = (Path(path) for path in self.paths if SOURCE.match(path))
        return {str(file.parent) for file in files if file.name == "__init__.py" and file.parts[-3] == "src"}

    @cached_property
    def _modules(self) -> dict[str, str]:
        return {
            _module_name(path): path
            for path in self.paths
            if path.endswith(".py") and (SOURCE.match(path) or path.startswith("tests/"))
        }

    @cached_property
    def _entry_points(self) -> set[str]:
        projects = [tomllib.loads((self._root / path).read_text())["project"] for path in self._projects]
        groups = [group for project in projects for group in project.get("entry-points", {}).values()]
        return {target.partition(":")[0] for group in groups for target in group.values()}

    @property
    def _projects(self) -> list[str]:
        """Paths of the files that describe the distributions of the tree: dependencies and entry points."""
        return [path for path in self.paths if PROJECT.fullmatch(path)]


def _is_below(path: str, folder: str) -> bool:
    return folder in (ALL, path) or path.startswith(f"{folder}/")


def _module_name(path: str) -> str:
    return SOURCE.sub("", path, count=1).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
