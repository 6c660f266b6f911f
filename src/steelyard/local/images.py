"""Steelyard's own images, and the file in which users name the programs of theirs, `images.toml`: made where there is
none, freed of old entries.

`supervisor.py` calls it at each start, `steelyard train` where nothing is started.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import steelyard.progress
from steelyard.local.state import StateDir
from steelyard_common import bounded_toml
from steelyard_common.durable import write_atomically
from steelyard_common.lock import hold_lock
from steelyard_common.platform_identity import PlatformIdentity

OWN = "localhost/steelyard/"
_OWN_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "steps": (),
    "python": (),
    "runner-sklearn": ("python", "-m", "steelyard.steps.runner_sklearn"),
    "runner-mock": ("python", "-m", "steelyard.steps.mock_inference_service"),
    "kubectl": ("python", "-m", "steelyard.local.kubectl", "deliver"),
}
"""Steelyard's own images by name, with the program that runs where a container names no command."""
STEPS, KUBECTL = f"{OWN}steps", f"{OWN}kubectl"

_HEAD = (
    "# Which Python runs for which image: a table with the image's name, without its tag.\n"
    '# ["registry.example.org/team/train"]\n'
    '# python = "/path/to/environment/bin/python"\n'
)
_EARLIER_HEAD = "# Which program runs for which image: python = PATH or root = FOLDER.\n"
"""Head of earlier versions, which offered what never was there."""
_HINT = "# Images of Steelyard itself need no entry: they run in the Python that Steelyard is installed in.\n"
_EARLIER = ("steps", "runner-sklearn", "runner-mock", "kubectl")
"""Images that earlier versions entered, each with the Python of the installation that made the file."""


def prepare_images(state: StateDir, identity: PlatformIdentity) -> None:
    """Make the file, or take out what an earlier version entered of its own installation; what users wrote stays.

    A file that names no platform is this one's from then on.

    The file can be read (`files.check_images`).
    """
    with hold_lock(state.lock("images")):
        if not state.images.exists():
            write_atomically(state.images, identity.add_mark(_HEAD + _HINT))
            return
        text = bounded_toml.read(state.images)
        if (freed := without_earlier(text, state.images)) != text:
            write_atomically(state.images, freed)
        identity.take_over(state.images)


def write_progress(state: StateDir) -> None:
    """Make the folder for PYTHONPATH from which programs import `steelyard.progress`, and nothing else.

    It has no `__init__.py`: where Steelyard itself is installed, that counts.
    """
    source = Path(steelyard.progress.__file__)
    target = state.python / "steelyard" / "progress.py"
    content = source.read_text()
    if not target.exists() or target.read_text() != content:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content)


def without_earlier(text: str, path: Path) -> str:
    """Return the content without the entries of our images that an earlier version wrote.

    It wrote all of them with one Python, in one form; an entry with another one is a user's.
    """
    if text.startswith(_EARLIER_HEAD):
        text = _HEAD + text.removeprefix(_EARLIER_HEAD)
    if not text.startswith(_HEAD):
        return text
    tables = {name: table for name, table in bounded_toml.load(text).items() if isinstance(table, dict)}
    pythons = {name: tables.get(f"{OWN}{name}", {}).get("python") for name in _EARLIER}
    writer = pythons["kubectl"] or pythons["steps"]
    for name in _EARLIER:
        command = own_command(f"{OWN}{name}", path)
        words = f"command = {re.escape(json.dumps(command))}\n" if command else ""
        if pythons[name] == writer is not None:
            table = rf'^\["{re.escape(OWN + name)}"\]\npython = "[^\n]*"\n{words}(?=\n|\[|\Z)\n?'
            text = re.sub(table, "", text, flags=re.MULTILINE)
    return text if _HINT in text else text.replace(_HEAD, _HEAD + _HINT, 1)


def own_command(name: str, path: Path) -> list[str] | None:
    """Return the command of an image of Steelyard's own; None for every other image."""
    command = _OWN_COMMANDS.get(name.removeprefix(OWN)) if name.startswith(OWN) else None
    if command is None:
        return None
    return [*command, str(path.with_name("kubeconfig"))] if name == KUBECTL else [*command]
