"""Tests of layers: the same content gives the same bytes, and an entry tells nothing of the machine that packed it."""

import gzip
import hashlib
import os
import tarfile
from pathlib import Path

import pytest

from deploy.images.layers import ENTRY_SECONDS, pack

FILES = {
    "usr/bin/program": "#!/usr/bin/python3\n",
    "etc/passwd": "steelyard\n",
    "etc/a": "",
    "usr/b": "b" * 70_000,
}


def make_folder(folder: Path, names: list[str], *, seconds: int, mode: int) -> Path:
    """Make the files in an order, with a time and rights for the group."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES[name])
        path.chmod(mode | (0o111 if "bin" in name else 0))
    (folder / "tmp").mkdir(mode=0o777)
    (folder / "tmp").chmod(0o777)
    (folder / "bin").symlink_to("usr/bin")
    for path in folder.rglob("*"):
        os.utime(path, (seconds, seconds), follow_symlinks=False)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "folder", list(FILES), seconds=1, mode=0o640)


def test_order_times_and_other_rights_of_files_change_nothing(folder: Path, tmp_path: Path) -> None:
    other = make_folder(tmp_path / "other", list(FILES)[::-1], seconds=2_000_000_000, mode=0o666)
    first, second = (pack(path, tmp_path / f"{path.name}.gz", "Files") for path in (folder, other))
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.digest == second.digest
    assert first.content_digest == second.content_digest


@pytest.mark.parametrize("change", ["content", "name", "execution"])
def test_what_counts_changes_the_digest(folder: Path, tmp_path: Path, change: str) -> None:
    before = pack(folder, tmp_path / "before.gz", "Files")
    match change:
        case "content":
            (folder / "etc/a").write_text("a")
        case "name":
            (folder / "etc/a").rename(folder / "etc/z")
        case "execution":
            (folder / "etc/a").chmod(0o755)
    assert pack(folder, tmp_path / "after.gz", "Files").digest != before.digest


def test_entries_belong_to_root_in_a_fixed_order_with_a_fixed_time(folder: Path, tmp_path: Path) -> None:
    layer = pack(folder, tmp_path / "layer.gz", "Files")
    with tarfile.open(layer.path) as archive:
        entries = {entry.name: entry for entry in archive}
    assert list(entries) == [
        "bin", "etc", "etc/a", "etc/passwd", "tmp", "usr", "usr/b", "usr/bin", "usr/bin/program",
    ]  # fmt: skip
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in entries.values()} == {
        (0, 0, "", ENTRY_SECONDS)
    }
    assert entries["bin"].linkname == "usr/bin"
    modes = {name: entry.mode for name, entry in entries.items() if not entry.issym()}
    assert modes == {
        "etc": 0o755, "etc/a": 0o644, "etc/passwd": 0o644, "tmp": 0o1777, "usr": 0o755, "usr/b": 0o644,
        "usr/bin": 0o755, "usr/bin/program": 0o755,
    }  # fmt: skip


def test_a_layer_names_its_digests_and_sizes(folder: Path, tmp_path: Path) -> None:
    layer = pack(folder, tmp_path / "layer.gz", "Files")
    compressed = layer.path.read_bytes()
    assert layer.digest == hashlib.sha256(compressed).hexdigest()
    assert layer.size == len(compressed)
    assert layer.content_digest == hashlib.sha256(gzip.decompress(compressed)).hexdigest()
    assert layer.files_size == sum(map(len, FILES.values()))
    assert compressed[3:9] == bytes([0, 0, 0, 0, 0, 0]), "gzip has neither a name nor a time"
