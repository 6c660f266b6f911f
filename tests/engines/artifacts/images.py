"""The image that is pushed, and the image of our steps, which the node has from the start."""

import hashlib
import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from deploy.images.archive import config_text
from tests.engines.build import cache
from tests.engines.node.images import Entries, configuration, python_layer, tools_layer, write
from tests.source import FOLDERS

STEPS = "localhost/steelyard-steps:1"
STEP = (
    "steelyard/__init__.py",
    "steelyard/steps/__init__.py",
    "steelyard/steps/session_identity.py",
    "steelyard_common/__init__.py",
    "steelyard_common/serving/__init__.py",
    "steelyard_common/serving/hosts.py",
    "steelyard_common/serving/limits.py",
)
"""Modules of the step and of what it imports, by their paths below the folders of modules."""
USER = "65534"
"""Number of the user of both images: Pods of sessions run nothing as root, and a name says nothing to a node."""
STARTED = 'exec httpd -f -p "$HOST:$PORT" -h /srv'
ANSWER = """#!/bin/sh
printf 'Content-Type: application/json\\r\\n\\r\\n{"asked": %s}\\n' "$(cat)"
"""
CONFIGURATION, LAYER = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.oci.image.layer.v1.tar+gzip",
)


@dataclass(frozen=True)
class Image:
    """Files of an image, as a client of registries pushes them."""

    configuration: Path
    layers: tuple[Path, ...]


def make_server(folder: Path) -> Image:
    """Write a small image whose program answers each request with what it was asked."""
    served = Entries()
    served.text("srv/ready", "ready\n")
    served.text("srv/cgi-bin/answer", ANSWER, 0o755)
    layers = [
        entries.pack(folder / f"layer-{number}.tar.gz")
        for number, entries in enumerate((tools_layer(_busybox()), served))
    ]
    configured = configuration(["sh", "-c", STARTED], user=USER)
    (folder / "config.json").write_bytes(config_text(layers, configured))
    return Image(folder / "config.json", tuple(layer.path for layer in layers))


def steps_archive() -> Path:
    """Return the archive of an image with the one step that stands in each Pod of a session; made if need be."""
    own = Entries()
    own.folder("root", 0o755)  # this Python may lie below it
    paths = {name: next(folder / name for folder in FOLDERS if (folder / name).exists()) for name in STEP}
    for name, path in paths.items():
        own.file(f"{sysconfig.get_path('stdlib').lstrip('/')}/{name}", path)
    files = (*paths.values(), _busybox(), Path(__file__))
    content = b"".join(path.read_bytes() for path in files) + sys.version.encode()
    archive = cache() / f"steps-{hashlib.sha256(content).hexdigest()[:12]}.tar"
    if not archive.exists():
        half = archive.with_suffix(f".new-{os.getpid()}")
        layers = [tools_layer(_busybox()), python_layer(), own]
        write(half, STEPS, layers, configuration(["python3"], user=USER))
        half.rename(archive)
    return archive


def _busybox() -> Path:
    program = shutil.which("busybox")
    assert program is not None
    return Path(program)
