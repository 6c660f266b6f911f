"""Images without a registry: an image's name stands for a Python of this machine.

Who starts the kubelet says which (`ImageResolver`). `ImageFile` reads it from a file that users write.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from steelyard_common import bounded_toml
from steelyard_common.types import sequence
from steelyard_local_kubernetes.kubelet.shim import PROGRAMS


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
        """Return whether the image is this very Python: no file names it, the shim does (`shim.read_intent`)."""
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


ImageResolver = Callable[[str], Image]
"""Function that returns the image of a reference. It raises ImageMissing, which says how to provide the image."""


@dataclass(frozen=True)
class ImageFile:
    """Images by name in a TOML file: `["registry.example.org/team/train"]` with `python = "/path/to/bin/python"`, and
    a `command` for containers that give none.

    It is read at every start: entries are added while the kubelet runs, and a container that waits for one starts then.
    """

    path: Path

    def __call__(self, reference: str) -> Image:
        """Return the image of a reference; of `python`, in any registry, the Python that runs now."""
        name = image_name(reference)
        entry = self.entries().get(name)
        if entry is None and name.rpartition("/")[2] == "python":
            return Image(name, sys.executable)
        return self.image(name, entry)

    def entries(self) -> Mapping[str, Any]:
        """Return the tables by name of image, which callers leave as they are. Raises ImageMissing."""
        try:
            return _parse(bounded_toml.read(self.path))
        except FileNotFoundError:
            return {}
        except bounded_toml.BadToml as error:
            raise ImageMissing(f"{self.path}: {error}") from error

    def image(self, name: str, entry: object) -> Image:
        """Return the image that an entry describes. Raises ImageMissing, which says what to write."""
        if entry is None:
            raise ImageMissing(
                f'image {name!r} is not in {self.path}; add a table ["{name}"] with python = "/path/to/bin/python"'
            )
        if not isinstance(entry, dict) or "python" not in entry:
            raise ImageMissing(
                f'{self.path}: ["{name}"]: it names no python; give python = "/path/to/bin/python"'
            )
        return Image(name, str(entry["python"]), tuple(entry.get("command", ())))
