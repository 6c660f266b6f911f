"""Tests of dependencies: the files that are taken out of an installation, and the platform whose wheels are chosen."""

from pathlib import Path

import pytest

from deploy.images.debian import Package
from deploy.images.dependencies import platform_tag, take_out_unused

KEPT = (
    "jedi/third_party/typeshed/os.pyi",
    "numpy/__init__.py",
    "numpy/_core/multiarray.so",
    "numpy/testing/__init__.py",
    "numpy-2.dist-info/METADATA",
    "numpy-2.dist-info/entry_points.txt",
    "numpy-2.dist-info/licenses/LICENSE",
    "package/RECORD",
    "pyarrow/libarrow.so.2500",
)
REMOVED = (
    ".lock",
    "numpy/__init__.pyi",
    "numpy/__pycache__/a.cpython-311.pyc",
    "numpy/_core/include/numpy/arrayobject.h",
    "numpy/_core/lib.a",
    "numpy/tests/test_a.py",
    "numpy-2.dist-info/RECORD",
    "numpy-2.dist-info/direct_url.json",
    "pyarrow/_flight.cpython-311-x86_64-linux-gnu.so",
    "pyarrow/libarrow_flight.so.2500",
)


def test_what_no_program_reads_is_taken_out(tmp_path: Path) -> None:
    for name in (*KEPT, *REMOVED):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    take_out_unused(tmp_path)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(KEPT)


@pytest.mark.parametrize(
    ("version", "tag"),
    [("2.36-9+deb12u14", "x86_64-manylinux_2_36"), ("2.41-12", "x86_64-manylinux_2_41")],
)
def test_wheels_are_those_that_the_library_of_the_base_can_load(version: str, tag: str) -> None:
    packages = [
        Package(name, number, "amd64", Path(), "") for name, number in (("a", "1"), ("libc6", version))
    ]
    assert platform_tag(packages, "x86_64") == tag
