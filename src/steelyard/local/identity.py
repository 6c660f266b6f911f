"""Identity of a process in an election: no other process, of this machine or another, now or later, has the
same.

`operator.py` and `platform.py` stand with it. Whether the holder of a lease still runs can be known of a process of the
same machine alone; after a crash its successor there takes the lease at once, others wait for its end.
"""

import os
import re
import socket
from pathlib import Path

from steelyard.local.state import process_start
from steelyard_kube.leader import Candidate, SystemClock

_IDENTITY = re.compile(r"(?P<host>.+)_(?P<pids>\d+)-(?P<pid>\d+)-(?P<started>[0-9a-f]+-\d+)")


def process_identity() -> str:
    """Host, process number and its namespace, boot and start: the start distinguishes a number that is used again."""
    pid = os.getpid()
    return f"{socket.gethostname().lower()[:40]}_{_pid_namespace()}-{pid}-{process_start(pid)}"


def has_ended(holder: str) -> bool:
    """Return whether the process is one of this boot and this namespace of process numbers, and has ended."""
    match = _IDENTITY.fullmatch(holder)
    if match is None or match["pids"] != _pid_namespace():
        return False
    own_boot = process_start(os.getpid()).partition("-")[0]
    same_boot = match["started"].partition("-")[0] == own_boot
    return same_boot and process_start(int(match["pid"])) != match["started"]


def process_candidate() -> Candidate:
    """This process as it stands for election."""
    return Candidate(process_identity(), SystemClock(), has_ended)


def _pid_namespace() -> str:
    """The kernel's number of the namespace in which this process's number counts: containers have their own."""
    return re.sub(r"\D", "", os.readlink(Path("/proc/self/ns/pid")))
