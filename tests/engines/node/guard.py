"""Starts a command in namespaces of its own, ends it when standard input ends, and removes its cgroups and its folder.

The command holds the other end of a pipe to this process, so it ends with it, too. What this process could not remove
because it was killed, `sweep` of a later one removes.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "steelyard-node-"
UNSHARE = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
SECONDS = 120.0
HOLDER = "holder"
"""File of the cluster's folder with the id of a process that is in the cluster's network."""


def main(folder: Path, listeners: list[int], command: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # as of a Ctrl-C: the pipe ends with the run
    lock = lock_of(folder)
    assert lock is not None
    make_cgroups(folder.name)
    # The lock is inherited: it is held until the last process that holds it has ended.
    process = subprocess.Popen(
        [*UNSHARE, *command],
        stdin=subprocess.PIPE,
        stdout=sys.stdout.fileno(),
        pass_fds=(*listeners, lock),
        start_new_session=True,
    )
    (folder / HOLDER).write_text(str(process.pid))
    for listener in listeners:
        os.close(listener)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that its end is seen where the command ends by itself
    sys.stdin.buffer.read()
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # and with it process 1 of the namespace
        process.wait()
    remove(folder)
    return 0


def lock_of(folder: Path) -> int | None:
    """A lock that is held as long as a cluster lives; None where another one holds it."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def hierarchies() -> list[Path]:
    """The roots of all cgroup trees: one on newer machines, one for each controller on older ones."""
    if (CGROUPS / "cgroup.procs").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists()]


def make_cgroups(name: str) -> None:
    for root in hierarchies():
        (root / name).mkdir()
        # In older trees a new group may use no processor and no memory until it is told which.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if root != CGROUPS and (root / name / setting).exists():
                (root / name / setting).write_text((root / setting).read_text())


def remove(folder: Path) -> None:
    """Remove what a cluster that has ended left: its cgroups, then its folder."""
    for root in hierarchies():
        group = root / folder.name
        for path, _, _ in os.walk(group, topdown=False):
            _remove_group(Path(path))
    shutil.rmtree(folder)


def _remove_group(path: Path) -> None:
    end = time.monotonic() + SECONDS
    while True:
        try:
            return path.rmdir()
        except OSError:
            # Its last process has ended, but the kernel has not counted it out yet.
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def sweep() -> None:
    """Remove what clusters left whose guard was killed, too."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if (folder / "lock").exists() and (lock := lock_of(folder)) is not None:
            remove(folder)
            os.close(lock)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), list(map(int, sys.argv[2].split(","))), sys.argv[3:]))
