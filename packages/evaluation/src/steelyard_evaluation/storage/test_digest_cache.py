"""Tests of digests that are kept between commands."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard_evaluation.storage import digest as digests
from steelyard_evaluation.storage.digest import file_sha256, sha256_of_all
from steelyard_evaluation.storage.digest_cache import DigestCache


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files as they lie for a while."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text(path.name * 1000)
    return paths


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read, one entry for each time."""
    paths: list[Path] = []

    real = digests._sha256_unless

    def reading(stopped: Callable[[], bool], path: Path) -> str:
        paths.append(path)
        return real(stopped, path)

    monkeypatch.setattr(digests, "_sha256_unless", reading)
    return paths


def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard_evaluation.storage.digest_cache.SETTLED_SECONDS", -1.0)


def test_a_file_is_read_once_until_it_changes(
    files: list[Path], read: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    cache = tmp_path / "cache" / "digests.json"
    first = sha256_of_all(files, DigestCache(cache))
    assert first == [file_sha256(path) for path in files]
    assert sorted(read) == files
    assert sha256_of_all(files, DigestCache(cache)) == first
    assert len(read) == 2
    before = files[0].stat()
    while files[0].stat().st_ctime_ns == before.st_ctime_ns:  # the clock of files ticks slowly
        files[0].write_text("x" * before.st_size)
        os.utime(files[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    again = sha256_of_all(files, DigestCache(cache))
    assert again == [file_sha256(files[0]), first[1]]
    assert again[0] != first[0]
    assert read[2:] == [files[0]]


def test_a_file_of_this_moment_is_not_kept(files: list[Path], read: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "digests.json"
    for _ in range(2):
        sha256_of_all(files, DigestCache(cache))
    assert len(read) == 4
    assert not cache.exists()


def test_a_file_that_was_written_meanwhile_is_not_kept(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    cache = DigestCache(tmp_path / "digests.json")
    before = files[0].stat()
    files[0].write_text("longer" * 1000)
    cache.add(files[0], before, "0" * 64)
    assert cache.get(files[0]) is None


def test_reading_ends_when_it_is_stopped(files: list[Path]) -> None:
    with pytest.raises(InterruptedError, match="was not read to its end"):
        sha256_of_all(files, stopped=lambda: True)


def test_a_damaged_cache_is_none(files: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "digests.json"
    cache.write_text("[")
    assert sha256_of_all(files, DigestCache(cache)) == [file_sha256(path) for path in files]
