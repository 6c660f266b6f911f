"""The state folder of a process in a Pod is a volume, which the kubelet gives to root."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from steelyard.local.files import prepare
from steelyard.local.state import StateDir
from steelyard_common.errors import UsageError
from tests.disk import small_disk


@contextmanager
def as_nobody() -> Iterator[None]:
    """Have no rights of root for a while."""
    os.setegid(65532)
    os.seteuid(65532)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to others")
def test_a_volume_of_a_pod_is_taken_though_root_owns_it() -> None:
    with TemporaryDirectory(prefix="steelyard-volume-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # pytest's own folders are closed to others
        mine = folder / "mine"
        mine.mkdir()
        mine.chmod(0o777)
        with as_nobody(), pytest.raises(UsageError, match="cannot be used: Operation not permitted"):
            prepare(StateDir(mine))
        with small_disk(folder / "volume", 4) as disk:
            disk.folder.chmod(0o777)
            for _ in range(2):
                with as_nobody():
                    prepare(StateDir(disk.folder))
            pki = (disk.folder / "pki").stat()
            assert (pki.st_uid, pki.st_mode & 0o777) == (65532, 0o700)
