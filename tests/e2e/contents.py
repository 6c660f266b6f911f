"""Reads what the built wheels hold: their modules, their imports of one another, and which of them users reach."""

import ast
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

LISTED = Path(__file__).parent / "wheel.txt"
MODULE = re.compile(r"steelyard(?:_\w+)?(?:\.\w+)*")
MAIN = re.compile(r'^if __name__ == "__main__":', re.MULTILINE)


class Contents:
    """The modules of the wheels, by name, with their text."""

    def __init__(self, wheels: Iterable[Path]) -> None:
        self.files, self.modules = list[str](), dict[str, str]()
        self.entry_points = list[str]()
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                for name in sorted(archive.namelist()):
                    self.files.append(name)
                    if name.endswith(".py"):
                        self.modules[_module(name)] = archive.read(name).decode()
                    elif name.endswith("entry_points.txt"):
                        self.entry_points += MODULE.findall(archive.read(name).decode())

    @cached_property
    def packages(self) -> list[str]:
        """The folders that hold modules, and the other files of the package beside them."""
        folders = {name.rpartition("/")[0] for name in self.files if name.endswith(".py")}
        others = [name for name in self.files if not name.endswith(".py") and ".dist-info/" not in name]
        return sorted([f"{folder}/" for folder in folders] + others)

    def missing(self) -> list[str]:
        """Imports of modules of ours that no wheel holds."""
        return sorted(
            f"{module} imports {imported}"
            for module in self.modules
            for imported in self._imports(module)
            if imported not in self.modules and imported.rpartition(".")[0] not in self.modules
        )

    def reached(self, roots: set[str]) -> set[str]:
        """The modules that the roots, entry points and programs use, directly or not."""
        programs = {name for name, text in self.modules.items() if MAIN.search(text)}
        # Alembic finds migrations by their folder, and no module names them.
        migrations = {name for name in self.modules if ".migrations" in name}
        left, reached = roots | set(self.entry_points) | programs | migrations, set[str]()
        while left:
            module = left.pop()
            if module in self.modules and module not in reached:
                reached.add(module)
                # A module is also named in a text: what a process is started with, or what is imported by need.
                for name in self._imports(module) | self._named(module):
                    left |= set(_with_parents(name))
        return reached

    @cached_property
    def _parsed(self) -> Mapping[str, tuple[set[str], set[str]]]:
        """Modules that each module imports, and those that its texts name; each is parsed once for all questions."""
        return {module: _mentioned(text) for module, text in self.modules.items()}

    def _imports(self, module: str) -> set[str]:
        return self._parsed[module][0]

    def _named(self, module: str) -> set[str]:
        return self._parsed[module][1]


def _mentioned(text: str) -> tuple[set[str], set[str]]:
    imports: set[str] = set()
    named: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import():
                imports |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(source)):
                imports |= {f"{source}.{alias.name}" for alias in node.names}
            case ast.Constant(value=str(constant)):
                named |= {*MODULE.findall(constant)}
    return {name for name in imports if MODULE.fullmatch(name)}, named


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]
