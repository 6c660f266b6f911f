"""Images without a registry: `images.toml` says which local environment stands for an image's host and name."""

import os
import re
import sys
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steelyard.runners.table import kind_of_image
from steelyard.types import sequence

_RAY = "ray"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ImageMissing(Exception):
    """The container waits with ErrImageNeverPull until images.toml names its image."""


@dataclass(frozen=True)
class Image:
    """A local environment: an interpreter, and the command of containers that give none."""

    name: str
    python: str | None = None
    command: tuple[str, ...] = ()

    def argv(self, container: dict[str, list[str]]) -> list[str]:
        """The program and its arguments; `python` means the image's own."""
        argv = [*(container.get("command") or self.command), *sequence(container, "args")]
        if argv and self.python and argv[0] in ("python", "python3"):
            argv[0] = self.python
        return argv

    def path(self) -> str:
        """PATH: the image's programs before the machine's."""
        return f"{os.path.dirname(self.python)}:{_PATH}" if self.python else _PATH


def name_of(reference: str) -> str:
    """Host and name of an image reference, without tag and digest."""
    # A colon that a slash follows comes before the port of a registry, and not before a tag.
    return re.sub(r":[^:/]*$", "", reference.partition("@")[0])


@lru_cache(4)
def _known(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def find(path: Path, reference: str) -> Image:
    """The image's entry in images.toml; ImageMissing says what to write there."""
    name = name_of(reference)
    try:
        # Read at every start: entries are added while the kubelet runs, and a
        # container that waits for one starts then.
        known = _known(path.read_text())
    except FileNotFoundError:
        known = {}
    except tomllib.TOMLDecodeError as error:
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
    if entry is None and name.rpartition("/")[2] == _RAY:
        return _ray(name, path)
    if entry is None:
        raise ImageMissing(
            f'image {name!r} is not in {path}; add a table ["{name}"] with python = "/path/to/bin/python"'
        )
    if not isinstance(entry, dict) or "python" not in entry:
        wrong = "root = FOLDER is not implemented yet" if "root" in entry else "it names no python"
        raise ImageMissing(f'{path}: ["{name}"]: {wrong}; give python = "/path/to/bin/python"')
    return Image(name, str(entry["python"]), tuple(entry.get("command", ())))


def _ray(name: str, path: Path) -> Image:
    """An image of Ray's (`rayproject/ray`, `quay.io/modh/ray`): the Ray of this Python, whatever the tag says."""
    if find_spec(_RAY) is None:
        raise ImageMissing(
            f"Ray is not installed on this machine; install it with: pip install 'steelyard[ray]', or add a table "
            f'["{name}"] with python = "/path/to/bin/python" to {path}'
        )
    return Image(name, sys.executable)
