"""The script that a job's command names: found in the command's text, and looked up in the packed working directory."""

import posixpath
import re
import shlex
from pathlib import Path

from steelyard.clusters.errors import BadConfig, Fault
from steelyard.clusters.ray.packing import Package

_PYTHON = re.compile(r"python[0-9.]*")
_SHELLS = frozenset({"bash", "sh"})
_VALUE_FOLLOWS = re.compile(r"-[A-Za-z]*[WX]")
_VALUE_FOLLOWS_IN_SHELLS = re.compile(r"[-+][A-Za-z]*[oO]")
"""Options whose value is another word, alone or at the end of several: `-W`, `-euo`."""
_NO_SCRIPT = re.compile(r"-|-[A-Za-z]*[cm]|--.*")
"""Words after which no script is looked for: `-c`, `-m`, `-lc`, `-` for the input, and any long option."""
_END = re.compile(r"[;&|\n]")
_UNKNOWN = re.compile(r"[$`*?~<>(){}]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def find_script(entrypoint: str) -> str | None:
    """Return the relative path of the script that a command runs first; None where it names none, or is not plain."""
    try:
        words = shlex.split(_END.split(entrypoint, maxsplit=1)[0])
    except ValueError:  # a quote is not closed, perhaps cut off above
        return None
    while words and _ASSIGNMENT.match(words[0]):
        del words[0]
    if not words:
        return None
    program, *arguments = words
    if "/" in program and not _is_interpreter(program):
        script: str | None = program
    else:
        script = _argument(posixpath.basename(program), arguments)
    if script is None or posixpath.isabs(script) or _UNKNOWN.search(script):
        return None
    return posixpath.normpath(script)


def ensure_script(entrypoint: str, package: Package, folder: Path) -> None:
    """Raise BadConfig where the command names a script that the working directory does not have."""
    script, names = find_script(entrypoint), package.names
    # Python also runs a folder, by its __main__.py.
    if script is None or any(name == script or name.startswith(f"{script}/") for name in names):
        return
    if (folder / script).exists():
        said = f"{script} is left out of working_dir {folder}: it is excluded, or outside of it"
    else:
        said = f"there is no {script} in working_dir {folder}"
        if same := [name for name in names if posixpath.basename(name) == posixpath.basename(script)]:
            said += f"; do you mean {same[0]}?"
    raise BadConfig("JobConfig", [Fault("entrypoint", said)])


def _is_interpreter(program: str) -> bool:
    name = posixpath.basename(program)
    return posixpath.isabs(program) and bool(name in _SHELLS or _PYTHON.fullmatch(name))


def _argument(program: str, arguments: list[str]) -> str | None:
    """Return the file that Python or a shell is given."""
    if program not in _SHELLS and not _PYTHON.fullmatch(program):
        return None
    value_follows = _VALUE_FOLLOWS_IN_SHELLS if program in _SHELLS else _VALUE_FOLLOWS
    words = iter(arguments)
    for word in words:
        if _NO_SCRIPT.fullmatch(word):
            return None
        if not word.startswith(("-", "+")):
            return word
        if value_follows.fullmatch(word):
            next(words, None)
    return None
