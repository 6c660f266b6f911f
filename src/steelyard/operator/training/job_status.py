"""What the operator remembers of a job, between its status and values: the fields that v1 does not have, and the times.

`status.py` writes conditions and counts around them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from steelyard.operator.conditions import parse_time, time_text
from steelyard.operator.training.model import Memory, Place, Replica
from steelyard.types import Json

NAMES = frozenset(
    {"replicas", "restarts", "disruptions", "failures", "restartAt", "startTime", "completionTime", "ports",
     "framework", "results"}
)  # fmt: skip
"""The fields of the status that are written here."""


def memory_of(status: Mapping[str, Any]) -> Memory:
    """What an earlier look wrote down. A status that is empty is that of a job never seen."""
    replicas = [_replica(each) for each in status.get("replicas") or ()]
    ports = {Place(each["type"], each["index"]): int(each["port"]) for each in status.get("ports") or ()}
    return Memory(
        replicas={each.place: each for each in replicas},
        restarts=int(status.get("restarts") or 0),
        disruptions=int(status.get("disruptions") or 0),
        failures=tuple(status.get("failures") or ()),
        restart_at=_time(status.get("restartAt")),
        started=_time(status.get("startTime")),
        completed=_time(status.get("completionTime")),
        ports=ports,
        framework=status.get("framework"),
        results=status.get("results"),
        conditions=tuple(status.get("conditions") or ()),
    )


def written(memory: Memory) -> Json:
    """The same as fields of a status; what is empty is left out."""
    ports = [{"type": place.role, "index": place.index, "port": port} for place, port in memory.ports.items()]
    fields: Json = {
        "startTime": _text(memory.started),
        "completionTime": _text(memory.completed),
        "replicas": [_written(each) for each in memory.replicas.values()],
        "restarts": memory.restarts,
        "disruptions": memory.disruptions,
        "failures": list(memory.failures),
        "restartAt": _text(memory.restart_at),
        "ports": ports,
        "framework": memory.framework,
        "results": memory.results,
    }
    return {name: value for name, value in fields.items() if value or value == 0}


def _replica(written: Json) -> Replica:
    return Replica(
        place=Place(str(written["type"]), int(written["index"])),
        attempt=int(written.get("attempt") or 0),
        pod=written.get("pod") or "",
        uid=written.get("uid") or "",
        phase=written.get("phase") or "Pending",
        restarts=int(written.get("restarts") or 0),
        in_place=int(written.get("inPlace") or 0),
        exit_code=written.get("exitCode"),
        reason=written.get("reason") or "",
        node=written.get("node") or "",
        started=_time(written.get("startedAt")),
    )


def _written(replica: Replica) -> Json:
    fields: Json = {
        "type": replica.place.role,
        "index": replica.place.index,
        "pod": replica.pod,
        "phase": replica.phase,
        "attempt": replica.attempt,
        "uid": replica.uid,
        "restarts": replica.restarts,
        "inPlace": replica.in_place,
        "exitCode": replica.exit_code,
        "reason": replica.reason,
        "node": replica.node,
        "startedAt": _text(replica.started),
    }
    return {name: value for name, value in fields.items() if value or value == 0}


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def _text(when: datetime | None) -> str | None:
    return time_text(when) if when else None
