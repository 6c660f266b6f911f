"""Images of one machine: those of `images.toml`, installed runners, and Steelyard's own.

Users write theirs into the file, and installed runners are entered there. Steelyard's own images stand in no
file: they are programs of the Python that runs now, and the state folder outlives the one that began it.
"""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steelyard.local.images import STEPS, own_command
from steelyard.runners.table import DYFF_AUDIT, kind_of_image
from steelyard_local_kubernetes.kubelet.images import (
    Image,
    ImageFile,
    ImageMissing,
    ImageResolver,
    image_name,
)

_RAY = "ray"
_ORIGINAL_ANALYSES = "/dyff/workflows/run-report"
"""End of the name of the image in which Dyff runs methods; the platform's own steps stand for it here."""
ANALYSIS_PYTHON = "STEELYARD_ANALYSIS_PYTHON"
"""Variable that tells a step which Python runs methods (`steelyard_evaluation/analysis/workspace.py` reads it)."""


def image_resolver(path: Path) -> ImageResolver:
    """Return the resolver for a file of images."""
    return lambda reference: find(path, reference)


def find(path: Path, reference: str) -> Image:
    """Return an image. Raises ImageMissing, which says what to write into the file, or what to install."""
    name, file = image_name(reference), ImageFile(path)
    known = file.entries()
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
    return file.image(name, entry)


def _analyses(known: Mapping[str, Any]) -> dict[str, str]:
    """Return the variable with the Python of dyff-audit's environment, where one for this Python is installed."""
    entry = known.get(f"localhost/{DYFF_AUDIT.image}")
    python = Path(str(entry["python"])) if isinstance(entry, dict) and "python" in entry else None
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    if python is None or not python.exists() or not (python.parents[1] / library).exists():
        return {}
    return {ANALYSIS_PYTHON: str(python)}


def _ray(name: str, path: Path) -> Image:
    """An image of Ray's (`rayproject/ray`, `quay.io/modh/ray`): the Ray of this Python, whatever the tag says."""
    if find_spec(_RAY) is None:
        raise ImageMissing(
            f"Ray is not installed on this machine; install it with: pip install 'steelyard[ray]', or add a table "
            f'["{name}"] with python = "/path/to/bin/python" to {path}'
        )
    return Image(name, sys.executable)
