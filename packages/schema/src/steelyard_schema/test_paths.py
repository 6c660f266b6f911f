"""Folders that are uploaded: nothing of their content is left out in silence."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard_schema.paths import BadFolder, files_below


def linked_folder(folder: Path, outside: Path) -> None:
    (folder / "linked").symlink_to(outside)


def linked_file(folder: Path, outside: Path) -> None:
    (folder / "linked").mkdir()
    (folder / "linked" / "b").symlink_to(outside / "b")


def link_in_a_linked_folder(folder: Path, outside: Path) -> None:
    (outside / "deep").mkdir()
    (outside / "deep" / "b").symlink_to(outside / "b")
    (outside / "b2").symlink_to(outside / "deep")
    (folder / "linked").symlink_to(outside / "b2")


@pytest.mark.parametrize("link", [linked_folder, linked_file, link_in_a_linked_folder])
def test_links_are_followed(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "a").write_text("1")
    (outside / "b").write_text("2")
    link(folder, outside)
    assert files_below(folder) == [folder / "a", folder / "linked" / "b"]


def dangling(path: Path) -> None:
    path.symlink_to("/no/such/file")


def circle(path: Path) -> None:
    path.symlink_to(path.parent)


def itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("odd", [dangling, circle, itself, os.mkfifo])
@pytest.mark.parametrize("deep", [False, True])
def test_what_cannot_be_followed_is_refused_by_its_path(
    tmp_path: Path, odd: Callable[[Path], None], deep: bool
) -> None:
    folder = tmp_path / "deep" if deep else tmp_path
    folder.mkdir(exist_ok=True)
    (tmp_path / "a").write_text("1")
    odd(folder / "odd")
    with pytest.raises(BadFolder, match=rf"{folder}/odd: is (a link to|neither)"):
        files_below(tmp_path)


def test_hidden_files_do_not_count_whatever_they_are(tmp_path: Path) -> None:
    (tmp_path / ".cache").symlink_to("/no/such/folder")
    (tmp_path / "a").write_text("1")
    assert files_below(tmp_path) == [tmp_path / "a"]
