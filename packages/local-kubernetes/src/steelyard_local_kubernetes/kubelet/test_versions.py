"""Versions of a folder: all its files change at once, also after a crash."""

import os
from pathlib import Path

import pytest

from steelyard_local_kubernetes.kubelet import versions
from steelyard_local_kubernetes.kubelet.versions import File

OLD = {"a": File(b"1"), "dir/b": File(b"2", 0o400), "gone": File(b"3")}
NEW = {"a": File(b"4"), "dir/c": File(b"5"), "new": File(b"6", 0o600)}


def shown(folder: Path) -> dict[str, bytes]:
    """The files as a program sees them that knows nothing of links."""
    paths = [Path(base) / name for base, _, names in os.walk(folder, followlinks=True) for name in names]
    plain = [path for path in paths if not path.relative_to(folder).parts[0].startswith("..")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in plain}


def test_all_files_change_by_one_link(tmp_path: Path) -> None:
    versions.make(tmp_path, OLD)
    assert versions.read(tmp_path) == OLD
    assert not versions.write(tmp_path, OLD)
    held = os.open(tmp_path / "a", os.O_RDONLY)
    assert versions.write(tmp_path, NEW)
    assert versions.read(tmp_path) == NEW
    assert shown(tmp_path) == {"a": b"4", "dir/c": b"5", "new": b"6"}
    assert os.read(held, 9) == b"1"  # who has a file open goes on reading the old one
    os.close(held)
    names = {path.name: path.is_symlink() for path in tmp_path.iterdir()}
    assert names == {"..2": False, "..data": True, "a": True, "dir": True, "new": True}


def test_a_folder_of_plain_files_becomes_one_of_versions(tmp_path: Path) -> None:
    """Volumes that an earlier version of this program has made hold their files themselves."""
    (tmp_path / "dir").mkdir()
    for name in ("a", "gone", "dir/b"):
        (tmp_path / name).write_text("old")
    assert versions.write(tmp_path, NEW)
    assert shown(tmp_path) == {"a": b"4", "dir/c": b"5", "new": b"6"}


def test_nothing_is_a_version_too(tmp_path: Path) -> None:
    versions.make(tmp_path, OLD)
    assert versions.write(tmp_path, {})
    assert shown(tmp_path) == {}
    assert versions.write(tmp_path, NEW)
    assert shown(tmp_path).keys() == NEW.keys()


class Died(BaseException):
    """Stands for the end of the process."""


def test_a_crash_at_any_step_leaves_one_version_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that changes the disk is the last one once; then another kubelet writes again."""
    step, done = 0, False
    while not done:
        step += 1
        folder = tmp_path / str(step)
        folder.mkdir()
        versions.make(folder, OLD)
        left = step

        def counted(real: object) -> object:
            def call(*arguments: object, **options: object) -> object:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Died
                return real(*arguments, **options)  # type: ignore[operator]

            return call

        with monkeypatch.context() as patched:
            for name in ("mkdir", "write_bytes", "symlink_to", "unlink"):
                patched.setattr(Path, name, counted(getattr(Path, name)))
            patched.setattr(os, "replace", counted(os.replace))
            try:
                versions.write(folder, NEW)
                done = True
            except Died:
                done = False
        seen = versions.read(folder)
        assert seen in (OLD, NEW), step
        assert versions.write(folder, NEW) == (seen == OLD)
        assert shown(folder) == {name: file.data for name, file in NEW.items()}
    assert step > 10
