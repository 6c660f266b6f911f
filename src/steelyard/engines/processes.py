"""Identity of a process in a database that several share: who was killed is succeeded at once, without its lease.

Members of the log's groups and API servers register by it. Whether a process of another machine runs cannot be known:
for those the lease counts.
"""

import os
from pathlib import Path


def own_process() -> str:
    """Return the identity of this process; empty where the system says nothing of processes."""
    return _process(os.getpid())


def may_live(process: str) -> bool:
    """Return whether a process may live. For one of another pid namespace only its lease can say."""
    namespace, _, pid = process.rpartition("-")[0].rpartition("-")
    if not pid.isdigit() or namespace != _namespace():
        return True
    return _process(int(pid)) == process


def _process(pid: int) -> str:
    """A process and its start, so that a pid that another has now is not taken for it; no match when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{_namespace()}-{pid}-{fields[19]}"


def _namespace() -> str:
    """The boot and the namespace in which a pid means this process; empty where there is none of that."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}.{Path('/proc/self/ns/pid').readlink().name}"
    except OSError:
        return ""
