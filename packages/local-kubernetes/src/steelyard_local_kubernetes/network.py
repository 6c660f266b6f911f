"""The loopback network of one state folder: 127.X.0.0/16, claimed so that no two `up`s share addresses.

A claim is a locked file per X. The file also names its folder, because the Pods of a killed `up` live on in its
network while no process holds the lock: another folder takes that X only when no other is left.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from steelyard_common.errors import SteelyardError
from steelyard_common.lock import FileLock, LockHeld

FIRST, LAST = 16, 239  # 127.0.x and 127.1.x are others' habits; resolvers sit at 127.0.0.53


@dataclass(frozen=True)
class Network:
    """Pods live in the lower half, Services in the upper one."""

    number: int

    @property
    def pods(self) -> str:
        return f"127.{self.number}.0.0/17"

    @property
    def services(self) -> str:
        return f"127.{self.number}.128.0/17"


def claims_folder() -> Path:
    """Return the folder of claims: per user and outside any state folder, so that all `up`s of a user share
    it.
    """
    return Path(tempfile.gettempdir()) / f"steelyard-{os.getuid()}"


def claim(state: Path, preferred: int, folder: Path) -> tuple[Network, FileLock]:
    """The network for `state`, and the lock to hold as long as it is used; `preferred` is its last one, or 0."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise SteelyardError(f"{folder} belongs to another user; remove it or set TMPDIR")
    # Users cannot see each other's claims, so each begins elsewhere.
    count = LAST + 1 - FIRST
    numbers = [FIRST + (os.getuid() + step) % count for step in range(count)]
    numbers.sort(key=lambda number: _claim_time(folder / f"net-{number}"))
    if preferred:
        numbers.insert(0, preferred)
    for ours_alone in (True, False):
        for number in numbers:
            lock = FileLock(folder / f"net-{number}")
            try:
                lock.acquire()
            except LockHeld:
                continue
            owner = lock.read()
            if owner in ("", str(state)) or not ours_alone or not Path(owner).exists():
                lock.write(str(state))
                return Network(number), lock
            lock.release()
    raise SteelyardError(f"all networks 127.{FIRST}.0.0 to 127.{LAST}.0.0 are in use by other state folders")


def _claim_time(claim: Path) -> int:
    """Return when a network was last claimed. The longest unused is taken first: for a minute after a
    connection's end the kernel gives its address and port to no other.
    """
    try:
        return claim.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
