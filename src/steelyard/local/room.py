"""The supervisor's eye on the disks that its folder and its engines lie on: it says when one is full, and when not."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from steelyard_common.disk_space import POLL_SECONDS, has_room
from steelyard_common.errors import UsageError


class RoomWatch:
    """`say` gets a line when a disk becomes full, and one when it has room again."""

    def __init__(
        self,
        folders: Sequence[Path],
        say: Callable[[str], None],
        has_room: Callable[[Path], bool] = has_room,
        pause: float = POLL_SECONDS,
    ) -> None:
        self._folders, self._say, self._has_room, self._pause = folders, say, has_room, pause
        self._full: set[Path] = set()

    def has_room(self) -> bool:
        """Return whether all file systems have room."""
        return all(map(self._has_room, self._folders))

    def check(self) -> None:
        """Raises UsageError where nothing could be begun."""
        for folder in self._folders:
            if not self._has_room(folder):
                raise UsageError(f"{folder}: its disk has no room left; make room and start again")

    async def run(self, do_due: Callable[[], None]) -> None:
        """Run until cancelled; call `do_due` at each check at which all have room."""
        while True:
            self.report()
            if not self._full:
                do_due()
            await asyncio.sleep(self._pause)

    def report(self) -> None:
        """Report each file system that has become full, or has room again."""
        for folder in self._folders:
            room = self._has_room(folder)
            if not room and folder not in self._full:
                self._full.add(folder)
                self._say(
                    f"no room is left on the disk of {folder}: nothing new is accepted, and what has to be written "
                    "waits. It continues by itself once there is room"
                )
            elif room and folder in self._full:
                self._full.remove(folder)
                self._say(f"there is room again on the disk of {folder}; everything continues")
