"""Folders of the source: `src` with the distribution `steelyard`, and one for each package below `packages`.

A module has a short name in tables of tests: its path below `src/steelyard`, as in `operator/controller.py`, and for
other packages its path below their `src`, which begins with the name of the package.
"""

import os
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
