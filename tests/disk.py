"""A small disk of its own for a test: a tmpfs that can be filled to the last byte and emptied again."""

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Disk:
    """A tmpfs that is mounted at `folder`."""

    folder: Path

    @property
    def ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self) -> None:
        """Leave no room; what others have freed meanwhile is taken, too."""
        with self.ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def empty(self) -> None:
        self.ballast.unlink(missing_ok=True)


UNMOUNT = 'cat > /dev/null; exec umount --lazy "$1"'
"""Wait for the end of the test's process, however it ends. Lazily: a process that a failed test has left would keep the
disk busy. The disk is named and not its folder: pytest renames the folders of earlier runs before it removes them."""


@contextlib.contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Disk]:
    """Mounts a disk at `folder`, as root; the test is skipped where a container allows no mount."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"steelyard-{uuid.uuid4()}"
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", name, str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a disk that can be filled needs the right to mount a tmpfs")
    # A session of its own: the guard must outlive a SIGKILL to the group of the test.
    guard = subprocess.Popen(["sh", "-c", UNMOUNT, "sh", name], stdin=subprocess.PIPE, start_new_session=True)
    with guard:
        yield Disk(folder)
    assert guard.returncode == 0, f"{folder} is still mounted"
