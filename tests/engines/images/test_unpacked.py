"""The files of our images: the same ones each time, with programs that run without rights on a read-only root."""

import base64
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from tests.engines.images.conftest import Archives, make
from tests.engines.node.cluster import ROOT

READ_ONLY = """
set -e
ip link set lo up
mount --bind "$1" "$1"
mount -o remount,ro,bind "$1"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
exec env -i PATH=/usr/local/bin:/usr/bin HOME=/tmp "$0" --userspec=65532:65532 "$@"
"""


def command_inside(root: Path, *words: str) -> list[str]:
    """Return the command of a program of an image as its user: only /tmp can be written, and no network is there."""
    return ["unshare", "--mount", "--net", "sh", "-c", READ_ONLY, "/usr/sbin/chroot", str(root), *words]


def run_inside(root: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command_inside(root, *words), capture_output=True, text=True, check=False)


@pytest.mark.timeout(1800)
def test_the_same_tree_gives_the_same_digest(archives: Archives, tmp_path: Path) -> None:
    again = make(tmp_path, "operator")
    assert again.listed("operator") == archives.listed("operator")
    for suffix in ("tar", "sbom.json", "provenance.json"):
        name = f"operator.{suffix}"
        assert (again.folder / name).read_bytes() == (archives.folder / name).read_bytes(), name


def test_the_program_runs_without_rights(root: Path) -> None:
    version = run_inside(root, "steelyard", "--version")
    assert version.stdout.startswith("steelyard "), version.stderr
    listed = run_inside(root, "steelyard", "service", "--help")
    assert "operator, platform, or one service" in listed.stdout, listed.stderr
    who = run_inside(root, "python", "-c", "import os; print(os.getuid(), os.getgid()); open('/etc/x', 'w')")
    assert who.stdout == "65532 65532\n"
    assert "Read-only file system" in who.stderr


@pytest.mark.parametrize("root", ["platform"], indirect=True)
def test_the_api_and_the_services_serve_until_they_are_ended(root: Path) -> None:
    words = (
        "service",
        "platform",
        "--state-dir",
        "/tmp/state",
        "--without",
        "orchestrator",
        "--without",
        "informer",
    )
    with subprocess.Popen(
        command_inside(root, "steelyard", *words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Started server process" in line:
                process.terminate()
        assert process.wait() == 0, "".join(lines)
    assert "Finished server process" in lines[-1]


@pytest.mark.parametrize("root", ["platform"], indirect=True)
def test_the_platform_describes_columns_without_pyarrow(root: Path) -> None:
    schema = base64.b64encode(pa.schema([("text", pa.string()), ("labels", pa.list_(pa.int8()))]).serialize())
    program = (
        "from steelyard_common.arrow_schema import read_fields; import sys;"
        "print([field.text for field in read_fields(sys.argv[1])])"
    )
    done = run_inside(root, "python", "-c", program, schema.decode())
    assert done.stdout == "['text: string', 'labels: list<item: int8>']\n", done.stderr
    assert not list(root.glob("usr/local/lib/python3*/dist-packages/pyarrow"))


def test_no_start_compiles_anything(root: Path) -> None:
    """Every module has a compiled file, and Python takes it."""
    modules = [path for path in root.rglob("*.py") if "python3" in path.as_posix()]
    lacking = [
        path.relative_to(root).as_posix()
        for path in modules
        if not any((path.parent / "__pycache__").glob(f"{path.stem}.cpython-*.pyc"))
    ]
    assert len(modules) > 2000
    assert lacking == []
    loaded = run_inside(root, "python", "-v", "-c", "import steelyard.cli.main")
    assert "# code object from /" not in loaded.stderr, "it was compiled from its source"
    assert "steelyard/cli/__pycache__/main.cpython-" in loaded.stderr


def test_there_is_no_shell(root: Path) -> None:
    names = {path.name for path in root.rglob("*") if path.is_file() and path.stat().st_mode & 0o111}
    assert {"sh", "bash", "dash", "busybox", "env", "perl"}.isdisjoint(names)
    assert run_inside(root, "/bin/sh", "-c", "true").returncode == 127


def test_nothing_in_an_image_names_this_machine(root: Path) -> None:
    place = str(ROOT).encode()
    modules = next(root.glob("usr/local/lib/python3*/dist-packages"))
    naming = [path.name for path in modules.rglob("*") if path.is_file() and place in path.read_bytes()]
    assert naming == []
