"""Tests of the base: which packages and files of Debian an image gets, and where they lie."""

import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.images.debian import LEFT_OUT, UNUSED_FILES, Package, image_path, make_root, unpack

FILES = {
    "bin/sh": "a shell",
    "etc/mime.types": "text/plain",
    "lib/x86_64-linux-gnu/libz.so.1": "a library",
    "usr/bin/python3.11": "an interpreter",
    "usr/lib/python3.11/asyncio/base_events.py": "",
    "usr/lib/python3.11/test/support/__init__.py": "",
    "usr/share/ca-certificates/mozilla/Root.crt": "a certificate\n",
    "usr/share/doc/small/copyright": "a licence",
    "usr/share/doc/small/changelog.gz": "",
}


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """Make a package of Debian from the files."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("there is no dpkg-deb")
    tree = tmp_path / "tree"
    for name, text in {**FILES, "DEBIAN/control": control("small")}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tree / "usr/bin/python3.11").chmod(0o755)
    (tree / "usr/bin/python3").symlink_to("python3.11")
    path = tmp_path / "small.deb"
    subprocess.run(("dpkg-deb", "--build", "--root-owner-group", tree, path), check=True, capture_output=True)
    return Package("small", "1:2-3", "all", path, "0" * 64)


def control(name: str) -> str:
    return f"Package: {name}\nVersion: 1:2-3\nArchitecture: all\nMaintainer: A\nDescription: small\n"


def list_files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()}


def test_of_a_package_the_needed_files_lie_below_usr(package: Package, tmp_path: Path) -> None:
    unpack(package.path, tmp_path / "root")
    assert list_files(tmp_path / "root") == {
        "etc/mime.types",
        "usr/bin/python3",
        "usr/bin/python3.11",
        "usr/lib/python3.11/asyncio/base_events.py",
        "usr/lib/x86_64-linux-gnu/libz.so.1",
        "usr/share/ca-certificates/mozilla/Root.crt",
        "usr/share/doc/small/copyright",
    }
    assert (tmp_path / "root/usr/bin/python3.11").stat().st_mode & 0o111
    assert not (tmp_path / "root/etc/mime.types").stat().st_mode & 0o111


@pytest.mark.skipif(not Path("/usr/lib/os-release").exists(), reason="no release of Debian")
def test_the_base_has_a_user_certificates_and_no_shell(package: Package, tmp_path: Path) -> None:
    root = tmp_path / "root"
    make_root([package], root)
    assert "steelyard:x:65532:65532:" in (root / "etc/passwd").read_text()
    assert (root / "etc/ssl/certs/ca-certificates.crt").read_text() == "a certificate\n"
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert "Package: small" in (root / "var/lib/dpkg/status.d/small").read_text()
    assert not (root / "bin/sh").exists()
    assert (root / "bin/python").resolve() == root / "usr/bin/python3.11"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("./bin/x", "usr/bin/x"),
        ("./lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("./usr/lib/a", "usr/lib/a"),
        ("./etc/mime.types", "etc/mime.types"),
        ("./", ""),
    ],
)
def test_a_file_has_its_place(name: str, place: str) -> None:
    assert image_path(name) == place


@pytest.mark.parametrize(
    "name", ["dpkg", "debconf", "perl-base", "tar", "openssl", "libncursesw6", "libkrb5-3"]
)
def test_packages_of_package_managers_and_shells_are_left_out(name: str) -> None:
    assert LEFT_OUT.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["libc6", "python3.11-minimal", "libssl3", "libssl3t64", "libgcc-s1", "zlib1g"]
)
def test_packages_of_python_stay(name: str) -> None:
    assert not LEFT_OUT.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["usr/bin/dash", "usr/sbin/ldconfig", "usr/lib/python3.11/lib-dynload/nis.so"]
)
def test_files_without_a_use_are_left_out(name: str) -> None:
    assert UNUSED_FILES.fullmatch(name)
