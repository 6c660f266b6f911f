"""A package that stands for far more than it weighs is refused in one line, before anything is read from it."""

import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.local.packages import MANIFEST, read_package, write_package
from steelyard.services.backup.record_files import Damaged


def _tar(*members: tuple[str, bytes, dict[str, str]], headers: dict[str, str] | None = None) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as tar:
        for name, content, own in members:
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = len(content), own
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def _link(name: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, name
        tar.addfile(info)
    return file.getvalue()


_SPARSE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 42)}
_MAP = b"1\n0\n1\n".ljust(512, b"\0") + b"x"
_OLD_SPARSE = {"GNU.sparse.size": str(1 << 42), "GNU.sparse.map": "0,1"}
_ENTRY = {"size": 1, "sha256": "0" * 64}
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a manifest of terabytes of zeros": (
        lambda: _tar((MANIFEST, _MAP, _SPARSE)),
        "manifest.json: is a sparse file, which no package holds",
    ),
    "a file of terabytes of zeros, as earlier tars wrote it": (
        lambda: _tar(("logs/a", b"x", _OLD_SPARSE), (MANIFEST, b"{}", {})),
        "logs/a: is a sparse file, which no package holds",
    ),
    "a link to itself": (lambda: _link(MANIFEST), "manifest.json: is neither a file nor a folder"),
    "headers that each member keeps": (
        lambda: _tar(*[("a", b"", {})] * 300, headers={f"k{number}": "v" for number in range(20_000)}),
        "its members have more than 100 headers, which are allowed",
    ),
    "a manifest of many lists": (
        lambda: _tar((MANIFEST, b"[" + b"[]," * 300_000 + b"1]", {})),
        "manifest.json: has more than 1004 values, which are allowed for the files that it holds",
    ),
    "a long manifest": (
        lambda: _tar((MANIFEST, b" " * (2 << 20), {})),
        "manifest.json: has more than [0-9]+ bytes, which are allowed for the files that it holds",
    ),
    "a deep manifest": (
        lambda: _tar((MANIFEST, b"[" * 900, {})),
        "manifest.json: is damaged: it is not a manifest of a package",
    ),
    "a manifest of many files": (
        lambda: _tar((MANIFEST, json.dumps({"files": {str(n): _ENTRY for n in range(9000)}}).encode(), {})),
        "manifest.json: has more than 1004 values, which are allowed for the files",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_package_is_bounded_before_it_is_read(tmp_path: Path, bomb: str) -> None:
    make, said = BOMBS[bomb]
    path = tmp_path / "all.tar"
    path.write_bytes(make())
    tracemalloc.start()
    try:
        with pytest.raises(Damaged, match=f"^{path}.*{said}") as refused, read_package(path):
            pass
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["all.tar", "all"])
def test_a_package_of_many_files_is_read(tmp_path: Path, name: str) -> None:
    with write_package(tmp_path / name) as package:
        for number in range(1500):
            package.add_bytes(f"files/{number}", b"x")
        package.finish("2030-01-01", "log", 1)
    with read_package(tmp_path / name) as read:
        read.check()
        assert len(read.names("files/")) == 1500
