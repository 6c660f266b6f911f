"""Images without a registry: programs of this machine, written as OCI archives by the writer of our own images."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.images import archive
from deploy.images.archive import Configuration
from deploy.images.layers import Layer, pack_entries
from tests.engines.node.configs import BUSYBOX, PAUSE, PYTHON

LEFT_OUT = {
    "test",
    "site-packages",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "__pycache__",
}
CREATED = "1980-01-01T00:00:00Z"


class Entries:
    """Entries of a layer, all of them owned by root, without times unless they matter."""

    def __init__(self) -> None:
        self._entries: list[tuple[tarfile.TarInfo, Path | bytes]] = []

    def file(self, name: str, path: Path, *, dated: bool = False) -> None:
        """Add a file; `dated` with its time, by which Python knows whether what it has compiled is of this source."""
        status, mode = path.stat(), 0o755 if os.access(path, os.X_OK) else 0o644
        self._add(name, mode, path, size=status.st_size, mtime=int(status.st_mtime) if dated else 0)

    def text(self, name: str, content: str, mode: int = 0o644) -> None:
        self._add(name, mode, content.encode(), size=len(content.encode()))

    def link(self, name: str, target: str) -> None:
        self._add(name, 0o777, type=tarfile.SYMTYPE, linkname=target)

    def folder(self, name: str, mode: int) -> None:
        self._add(name, mode, type=tarfile.DIRTYPE)

    def _add(self, name: str, mode: int, content: Path | bytes = b"", **fields: int | str | bytes) -> None:
        entry = tarfile.TarInfo(name)
        for field, value in {"mode": mode, **fields}.items():
            setattr(entry, field, value)
        self._entries.append((entry, content))

    def pack(self, path: Path) -> Layer:
        return pack_entries(self._entries, path, path.name)


def make(folder: Path) -> Path:
    """The folder of the images' archives: a shell with its tools, the same with Python, and what holds a Pod open."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    made = folder / _version(Path(busybox))
    if not made.exists():
        half = folder / f"{made.name}.new-{os.getpid()}"
        half.mkdir(parents=True)
        tools, python = tools_layer(Path(busybox)), python_layer()
        sleep = ["/bin/sleep", "2147483647"]
        for name, layers, command in (
            (PAUSE, [tools], sleep),
            (BUSYBOX, [tools], ["/bin/sh"]),
            (PYTHON, [tools, python], ["python3"]),
        ):
            write(half / f"{re.sub('[/:]', '-', name)}.tar", name, layers, configuration(command))
        shutil.rmtree(made, ignore_errors=True)
        half.rename(made)
    return made


def _version(busybox: Path) -> str:
    content = busybox.read_bytes() + sys.version.encode() + Path(__file__).read_bytes()
    return f"images-{hashlib.sha256(content).hexdigest()[:12]}"


def tools_layer(busybox: Path) -> Entries:
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    layer = Entries()
    layer.file("bin/busybox", busybox)
    for name in listed:
        if name != "busybox":
            layer.link(f"bin/{name}", "busybox")
    layer.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    layer.text("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    layer.folder("tmp", 0o1777)
    layer.folder("root", 0o700)
    return layer


def python_layer() -> Entries:
    """This Python's interpreter, its standard library, and the libraries that both load."""
    layer = Entries()
    interpreter = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    library = Path(sys.base_prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    layer.file(str(interpreter).lstrip("/"), interpreter)
    layer.link("bin/python3", str(interpreter))
    layer.link("bin/python", str(interpreter))
    modules = [interpreter]
    for path in sorted(library.rglob("*")):
        wanted = path.suffix != ".a" and not LEFT_OUT & set(path.relative_to(library).parts)
        if wanted and path.is_file():
            layer.file(str(path).lstrip("/"), path)
            if path.suffix == ".so":
                modules.append(path)
    for name in sorted(loaded(modules)):
        layer.file(name.lstrip("/"), Path(name))
    return layer


def loaded(modules: list[Path]) -> set[str]:
    """The shared libraries that modules load, by the names they are found under."""
    answer = subprocess.run(["ldd", *map(str, modules)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", answer, re.MULTILINE))


def configuration(command: list[str], *, first: str = "", user: str = "") -> Configuration:
    """Return an image's configuration; `first` is a folder of programs before the others, without a user it is root."""
    programs = ":".join([*filter(None, [first]), "/usr/local/bin", "/usr/bin", "/bin"])
    return Configuration((), user, CREATED, command, {"PATH": programs})


def write(path: Path, name: str, layers: Sequence[Entries], configured: Configuration) -> None:
    """Write an OCI archive, which `ctr images import` takes."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        packed = [entries.pack(Path(folder, f"layer-{number}")) for number, entries in enumerate(layers)]
        archive.write(path, name, packed, configured)
