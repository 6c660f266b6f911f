"""Folders of the source: `src` with the distribution `steelyard`, and one for each package below `packages`.

A module has a short name in tables of tests: its path below `src/steelyard`, as in `operator/controller.py`, and for
other packages its path below their `src`, which begins with the name of the package.
"""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
STEELYARD = ROOT / "src" / "steelyard"
FOLDERS = (ROOT / "src", *sorted(ROOT.glob("packages/*/src")))
"""Folders from which modules are imported."""
SOURCES = (STEELYARD, *sorted(path for folder in FOLDERS[1:] for path in folder.iterdir() if path.is_dir()))
"""Folder of each import package."""
PYTHONPATH = os.pathsep.join(map(str, FOLDERS))


def modules() -> Iterator[Path]:
    """Yield the Python files of all packages, tests and doubles with them."""
    for source in SOURCES:
        yield from sorted(source.rglob("*.py"))


def short_name(path: Path) -> str:
    """Return the short name of a module or folder."""
    near = STEELYARD if path.is_relative_to(STEELYARD) else next(f for f in FOLDERS if path.is_relative_to(f))
    return path.relative_to(near).as_posix()


def place(name: str) -> Path:
    """Return the path of a module or folder by its short name, or by its path below the root."""
    if name.startswith(("tests/", "docs/")):
        return ROOT / name
    package = name.partition("/")[0]
    return next((path.parent / name for path in SOURCES[1:] if path.name == package), STEELYARD / name)


def write_metadata(folder: Path) -> None:
    """Write the metadata that an installation has of each distribution into a folder: its name, and its entry points.

    An environment that has our source alone finds the rubrics, and the version that records name, by them.
    """
    for path in (ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))):
        project = tomllib.loads(path.read_text())["project"]
        information = folder / f"{project['name'].replace('-', '_')}-0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
        groups = project.get("entry-points", {}) | {"console_scripts": project.get("scripts", {})}
        lines = [
            line
            for group, members in groups.items()
            if members
            for line in (f"[{group}]", *(f"{name} = {target}" for name, target in members.items()))
        ]
        if lines:
            (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
