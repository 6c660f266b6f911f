"""Every public name that Python programs could import before the packages were divided, and its place now.

`moved/names.txt` has the names of the modules then, generated once: classes and functions without an underscore, tests
left out. `moved/modules.txt` says which module or package became which, and `moved/renamed.txt` which name became
which. A name that moves again, or gets another name, has its line there.
"""

import re
from functools import cache
from pathlib import Path

from tests.source import FOLDERS

FOLDER = Path(__file__).parent / "moved"
TOP = re.compile(r"^(?: {4})?(?:(?:async )?def|class) (\w+)|^(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)
"""Definitions and assignments of a module; those of a class are found, too, and matter to no name here."""
IMPORT = re.compile(r"^ *from [\w.]+ import (\([^)]*\)|[^(\n]+)$", re.MULTILINE)


def table(name: str) -> dict[str, str]:
    lines = (FOLDER / name).read_text().splitlines()
    return {old: new.strip() for old, _, new in (line.partition(" ") for line in lines)}


MODULES, RENAMED = table("modules.txt"), table("renamed.txt")
NAMES = {
    f"{module.removesuffix(':')}.{name}": module.removesuffix(":")
    for module, names in table("names.txt").items()
    for name in names.split()
}


def place(name: str) -> str:
    """Return the place now of a name that was once there."""
    if name in RENAMED:
        return RENAMED[name]
    module = NAMES[name]
    parts = module.split(".")
    parents = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    moved = next((parent for parent in parents if parent in MODULES), "")
    return MODULES[moved] + name.removeprefix(moved) if moved else name


@cache
def defined(module: str) -> frozenset[str]:
    """Return the names that can be imported from a module; none where there is no such module."""
    path = module.replace(".", "/")
    files = [folder / f"{path}{ending}" for folder in FOLDERS for ending in (".py", "/__init__.py")]
    text = next((file.read_text() for file in files if file.is_file()), "")
    imported = " ".join(names for names in IMPORT.findall(text))
    return frozenset(name for pair in TOP.findall(text) for name in pair) | {*re.findall(r"\w+", imported)}


def test_every_earlier_name_has_a_place() -> None:
    assert len(NAMES) > 5000
    places = {name: place(name) for name in NAMES}
    lost = {
        name: at for name, at in places.items() if at.rpartition(".")[2] not in defined(at.rpartition(".")[0])
    }
    assert lost == {}, "moved/renamed.txt names the place of each"


def test_the_tables_name_what_was_there_and_is_no_longer() -> None:
    assert sorted(RENAMED.keys() - NAMES.keys()) == []
    assert [name for name, now in RENAMED.items() if name == now] == []
    modules = {*NAMES.values()}
    assert [old for old in MODULES if not any(f"{name}.".startswith(f"{old}.") for name in modules)] == []
    assert [old for old in MODULES if defined(old)] == []
