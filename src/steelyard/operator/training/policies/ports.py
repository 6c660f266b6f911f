"""Main ports of replicas on their hosts' network, taken from a range that the job gives.

On a host's network a container port is a port of the node, so the scheduler keeps two Pods with one port apart; within
a job no two replicas get the same port. The job's uid decides where in the range it begins, so that two jobs rarely
meet.
"""

import hashlib
import re
from dataclasses import replace

from steelyard.operator.training.labels import PORT_RANGE
from steelyard.operator.training.model import Invalid, JobStatus, TrainingJob

FIELD = f"metadata.annotations[{PORT_RANGE}]"


def assign(job: TrainingJob, status: JobStatus) -> JobStatus:
    """Add a port for each replica that needs one and lacks it. Raises Invalid for a wrong range."""
    text = job.annotations.get(PORT_RANGE)
    if not text:
        return status
    match = re.fullmatch(r"\s*(\d{1,5})\s*-\s*(\d{1,5})\s*", text)
    low, high = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= low <= high <= 65535:
        raise Invalid(FIELD, f"{text!r} is not a range of ports such as 20000-20999")
    replica_ids = [
        replica_id
        for replica_id in job.replica_ids
        if job.roles[replica_id.role].template["spec"].get("hostNetwork")
    ]
    if len(replica_ids) > high - low + 1:
        raise Invalid(
            FIELD, f"{text} has {high - low + 1} ports, and {len(replica_ids)} replicas need one each"
        )
    ports = {replica_id: port for replica_id, port in status.ports.items() if low <= port <= high}
    missing = [replica_id for replica_id in replica_ids if replica_id not in ports]
    if not missing and ports == status.ports:
        return status
    free = _free(job.uid, low, high, frozenset(ports.values()), len(missing))
    return replace(status, ports={**ports, **dict(zip(missing, free, strict=True))})


def _free(uid: str, low: int, high: int, taken: frozenset[int], count: int) -> list[int]:
    size = high - low + 1
    start = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) % size
    free: list[int] = []
    for step in range(size):
        port = low + (start + step) % size
        if len(free) == count:
            break
        if port not in taken:
            free.append(port)
    return free
