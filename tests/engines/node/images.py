"""Images without a registry: programs of this machine, written as OCI archives."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from steelyard_common.types import Json
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
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


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
            write(half / f"{re.sub('[/:]', '-', name)}.tar", name, layers, command)
        shutil.rmtree(made, ignore_errors=True)
        half.rename(made)
    return made


def _version(busybox: Path) -> str:
    content = busybox.read_bytes() + sys.version.encode() + Path(__file__).read_bytes()
    return f"images-{hashlib.sha256(content).hexdigest()[:12]}"


def tools_layer(busybox: Path) -> bytes:
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    layer = Layer()
    layer.file("bin/busybox", busybox)
    for name in listed:
        if name != "busybox":
            layer.link(f"bin/{name}", "busybox")
    layer.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    layer.text("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    layer.folder("tmp", 0o1777)
    layer.folder("root", 0o700)
    return layer.content()


def python_layer() -> bytes:
    """This Python's interpreter, its standard library, and the libraries that both load."""
    layer = Layer()
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
    return layer.content()


def loaded(modules: list[Path]) -> set[str]:
    """The shared libraries that modules load, by the names they are found under."""
    answer = subprocess.run(["ldd", *map(str, modules)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", answer, re.MULTILINE))


class Layer:
    """A layer in the making, all of it owned by root, without times unless they matter."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)

    def file(self, name: str, path: Path, *, dated: bool = False) -> None:
        """Add a file; `dated` with its time, by which Python knows whether what it has compiled is of this source."""
        time = int(path.stat().st_mtime) if dated else 0
        self._add(name, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644, time)

    def text(self, name: str, content: str, mode: int = 0o644) -> None:
        self._add(name, content.encode(), mode)

    def _add(self, name: str, content: bytes, mode: int, time: int = 0) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = len(content), mode, time
        self._tar.addfile(entry, io.BytesIO(content))

    def link(self, name: str, target: str) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(entry)

    def folder(self, name: str, mode: int) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(entry)

    def content(self) -> bytes:
        self._tar.close()
        return self._buffer.getvalue()


def machine() -> Json:
    """Return the platform of images for this machine."""
    return {"architecture": MACHINES.get(os.uname().machine, os.uname().machine), "os": "linux"}


def configuration(layers: list[bytes], command: list[str], *, first: str = "", user: str = "") -> bytes:
    """Return an image's configuration; `user` is the one that its programs run as, by default root."""
    programs = ":".join([*filter(None, [first]), "/usr/local/bin", "/usr/bin", "/bin"])
    settings = {"Env": [f"PATH={programs}"], "Cmd": command, "WorkingDir": "/", "User": user}
    root = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]}
    return json.dumps({**machine(), "config": settings, "rootfs": root}).encode()


def write(
    path: Path, name: str, layers: list[bytes], command: list[str], first: str = "", user: str = ""
) -> None:
    """Write an OCI archive, which `ctr images import` takes; `first` is a folder of programs before the others."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> Json:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    descriptors = [blob(layer, "layer.v1.tar") for layer in layers]
    config = blob(configuration(layers, command, first=first, user=user), "config.v1+json")
    manifest: Json = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}
    manifest |= {"config": config, "layers": descriptors}
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rsplit(":", 1)[1],
    }
    entry["platform"] = machine()
    with tarfile.open(path, "w") as archive:

        def put(name: str, content: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))

        put("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        put("index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode())
        for digest, content in blobs.items():
            put(f"blobs/sha256/{digest}", content)
