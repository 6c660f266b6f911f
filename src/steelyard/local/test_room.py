"""The watch over the disk's free space."""

from pathlib import Path

import pytest

from steelyard.local.room import RoomWatch
from steelyard_common.errors import UsageError

FOLDER, OTHER = Path("/state"), Path("/storage")


def test_a_full_disk_is_said_once_and_so_is_its_end() -> None:
    full, said = set[Path](), list[str]()
    watch = RoomWatch([FOLDER, OTHER], said.append, lambda folder: folder not in full)
    watch.report()
    full.add(OTHER)
    watch.report()
    watch.report()
    assert not watch.has_room()
    full.clear()
    watch.report()
    watch.report()
    assert watch.has_room()
    assert [line.partition(":")[0] for line in said] == [
        "no room is left on the disk of /storage",
        "there is room again on the disk of /storage; everything continues",
    ]


def test_nothing_is_begun_on_a_full_disk() -> None:
    with pytest.raises(UsageError, match="/state: its disk has no room left"):
        RoomWatch([FOLDER], lambda line: None, lambda folder: False).check()
