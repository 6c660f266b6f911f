"""Images without a registry: which local environment stands for an image's host and name.

Users write theirs into `images.toml`, and installed runners are entered there. Steelyard's own images stand in no
file: they are programs of the Python that runs now, and the state folder outlives the one that began it.
"""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steelyard import bounded_toml
from steelyard.local.kubelet.shim import PROGRAMS
from steelyard.runners.table import DYFF_AUDIT, kind_of_image
from steelyard_common.types import sequence

_RAY = "ray"
OWN = "localhost/steelyard/"
_OWN_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "steps": (),
    "python": (),
    "runner-sklearn": ("python", "-m", "steelyard.steps.runner_sklearn"),
    "runner-mock": ("python", "-m", "steelyard.steps.mock_inference_service"),
    "kubectl": ("python", "-m", "steelyard.local.kubectl", "deliver"),
}
"""Steelyard's own images by name, with the program that runs where a container names no command."""
STEPS = f"{OWN}steps"
_ORIGINAL_ANALYSES = "/dyff/workflows/run-report"
"""End of the name of the image in which Dyff runs methods; the platform's own steps stand for it here."""
ANALYSIS_PYTHON = "STEELYARD_ANALYSIS_PYTHON"
"""Variable that tells a step which Python runs methods (`analysis/workspace.py` reads it)."""


class ImageMissing(Exception):
    """The container waits with ErrImageNeverPull until images.toml names its image."""


@dataclass(frozen=True)
class Image:
    """A local environment: an interpreter, and the command of containers that give none."""

    name: str
    python: str | None = None
    command: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that its programs get."""

    @property
    def is_own(self) -> bool:
        """Return whether the image is Steelyard's own Python: no file names it, the shim does (`shim.read_intent`)."""
        return self.python == sys.executable

    def argv(self, container: dict[str, list[str]]) -> list[str]:
        """The program and its arguments; `python` means the image's own."""
        argv = [*(container.get("command") or self.command), *sequence(container, "args")]
        if argv and self.python and not self.is_own and argv[0] in ("python", "python3"):
            argv[0] = self.python
        return argv

    def path(self) -> str:
        """PATH: the image's programs before the machine's."""
        return f"{os.path.dirname(self.python)}:{PROGRAMS}" if self.python else PROGRAMS


def image_name(reference: str) -> str:
    """Host and name of an image reference, without tag and digest."""
    # A colon that a slash follows comes before the port of a registry, and not before a tag.
    return re.sub(r":[^:/]*$", "", reference.partition("@")[0])


@lru_cache(4)
def _parse(text: str) -> dict[str, Any]:
    return bounded_toml.load(text)


def find(path: Path, reference: str) -> Image:
    """The image's entry in images.toml; ImageMissing says what to write there."""
    name = image_name(reference)
    try:
        # Read at every start: entries are added while the kubelet runs, and a
        # container that waits for one starts then.
        known = _parse(bounded_toml.read(path))
    except FileNotFoundError:
        known = {}
    except bounded_toml.BadToml as error:
        raise ImageMissing(f"{path}: {error}") from error
    entry = known.get(name)
    kind = kind_of_image(name)
    # The Python that an entry names may be gone: an environment may have been removed since.
    installed = isinstance(entry, dict) and ("python" not in entry or os.path.exists(str(entry["python"])))
    if kind is not None and not installed:
        raise ImageMissing(
            f"the runner {kind.name} is not installed on this machine; it begins once you have run: "
            f"{kind.install_command} --state-dir {path.parent}"
        )
    if entry is None and name.endswith(_ORIGINAL_ANALYSES):
        name = STEPS
    if entry is None and (command := own_command(name, path)) is not None:
        return Image(name, sys.executable, tuple(command), _analyses(known) if name == STEPS else {})
    if entry is None and name.rpartition("/")[2] == _RAY:
        return _ray(name, path)
    if entry is None:
        raise ImageMissing(
            f'image {name!r} is not in {path}; add a table ["{name}"] with python = "/path/to/bin/python"'
        )
    if not isinstance(entry, dict) or "python" not in entry:
        raise ImageMissing(f'{path}: ["{name}"]: it names no python; give python = "/path/to/bin/python"')
    return Image(name, str(entry["python"]), tuple(entry.get("command", ())))


def _analyses(known: Mapping[str, Any]) -> dict[str, str]:
    """Return the variable with the Python of dyff-audit's environment, where one for this Python is installed."""
    entry = known.get(f"localhost/{DYFF_AUDIT.image}")
    python = Path(str(entry["python"])) if isinstance(entry, dict) and "python" in entry else None
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    if python is None or not python.exists() or not (python.parents[1] / library).exists():
        return {}
    return {ANALYSIS_PYTHON: str(python)}


def own_command(name: str, path: Path) -> list[str] | None:
    """Return the command of an image of Steelyard's own; None for every other image."""
    command = _OWN_COMMANDS.get(name.removeprefix(OWN)) if name.startswith(OWN) else None
    if command is None:
        return None
    return [*command, str(path.with_name("kubeconfig"))] if name == f"{OWN}kubectl" else [*command]


def _ray(name: str, path: Path) -> Image:
    """An image of Ray's (`rayproject/ray`, `quay.io/modh/ray`): the Ray of this Python, whatever the tag says."""
    if find_spec(_RAY) is None:
        raise ImageMissing(
            f"Ray is not installed on this machine; install it with: pip install 'steelyard[ray]', or add a table "
            f'["{name}"] with python = "/path/to/bin/python" to {path}'
        )
    return Image(name, sys.executable)
