"""The image of Ray that both servers' clusters name: on the real node an image, on the embedded one an environment.

Both have the Ray of codeflare-sdk's environment.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.locked import environment
from tests.engines.node.images import LEFT_OUT, Entries, configuration, loaded, tools_layer, write
from tests.engines.operators.making import IMAGE

LOCK = Path(__file__).parents[1] / "ray" / "codeflare.txt"
PROGRAMS = ("bash", "wget")
"""Programs that KubeRay's commands and probes need, other than a shell's own tools."""
UNUSED = {
    "pyarrow",
    "pandas",
    "numpy",
    "numpy.libs",
    "jedi",
    "kubernetes",
    "IPython",
    "codeflare_sdk",
    "jars",
    "rllib",
}
"""Folders of the environment that no program of a cluster loads: the image is half as large without them."""


def python() -> Path:
    """The interpreter of the environment that has Ray. Raises Missing."""
    return environment("codeflare", LOCK)


def make(folder: Path) -> Path:
    """The image's archive in a folder. Raises Missing."""
    interpreter = python()
    content = Path(__file__).read_bytes() + str(interpreter).encode() + sys.version.encode()
    archive = folder / f"ray-{hashlib.sha256(content).hexdigest()[:12]}.tar"
    if not archive.exists():
        busybox = shutil.which("busybox")
        assert busybox is not None
        half = archive.with_suffix(f".new-{os.getpid()}")
        configured = configuration(["bash"], first=str(interpreter.parent))
        write(half, IMAGE, [tools_layer(Path(busybox)), _layer(interpreter)], configured)
        half.rename(archive)
    return archive


def _layer(interpreter: Path) -> Entries:
    """The environment at its own place, the Python below it with what it has compiled, and the programs."""
    layer = Entries()
    base = interpreter.resolve()
    library = Path(sys.base_prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    modules = [base]
    layer.file(str(base).lstrip("/"), base)
    for root, unused in ((library, LEFT_OUT - {"__pycache__"}), (interpreter.parents[1], UNUSED)):
        for path in sorted(root.rglob("*")):
            if unused & set(path.relative_to(root).parts) or path.suffix == ".a":
                continue
            if path.is_symlink():
                layer.link(str(path).lstrip("/"), os.readlink(path))
            elif path.is_file():
                layer.file(str(path).lstrip("/"), path, dated=True)
                if ".so" in path.suffixes or (
                    os.access(path, os.X_OK) and path.read_bytes()[:4] == b"\x7fELF"
                ):
                    modules.append(path)
    for name in PROGRAMS:
        program = shutil.which(name)
        if program is None:
            raise Missing(f"{name} is not installed")
        layer.file(f"bin/{name}", Path(program))
        modules.append(Path(program))
    for name in sorted(loaded(modules)):
        layer.file(name.lstrip("/"), Path(name))
    return layer
