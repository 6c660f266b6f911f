"""Main ports of replicas on their hosts' network, taken from a range that the job names.

On a host's network a container port is a port of the node, so the scheduler keeps two Pods with one port apart; within
a job no two replicas get the same one. Where a job begins in its range depends on its uid: two jobs rarely meet.
"""

import hashlib
import re
from dataclasses import replace

from steelyard.operator.training.labels import PORT_RANGE
from steelyard.operator.training.model import Invalid, Memory, Place, TrainingJob

FIELD = f"metadata.annotations[{PORT_RANGE}]"


def assign(job: TrainingJob, memory: Memory) -> Memory:
    """The memory with a port for each replica that needs one. What was given once stays."""
    text = job.annotations.get(PORT_RANGE)
    if not text:
        return memory
    low, high = _bounds(text)
    places = [place for place in job.places if _on_host(job, place)]
    if len(places) > high - low + 1:
        raise Invalid(FIELD, f"{text} has {high - low + 1} ports, and {len(places)} replicas need one each")
    ports = {place: port for place, port in memory.ports.items() if low <= port <= high}
    missing = [place for place in places if place not in ports]
    if not missing and ports == memory.ports:
        return memory
    free = _free(job.uid, low, high, frozenset(ports.values()), len(missing))
    return replace(memory, ports={**ports, **dict(zip(missing, free, strict=True))})


def _bounds(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"\s*(\d{1,5})\s*-\s*(\d{1,5})\s*", text)
    low, high = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= low <= high <= 65535:
        raise Invalid(FIELD, f"{text!r} is no range of ports such as 20000-20999")
    return low, high


def _on_host(job: TrainingJob, place: Place) -> bool:
    return bool(job.roles[place.role].template["spec"].get("hostNetwork"))


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
