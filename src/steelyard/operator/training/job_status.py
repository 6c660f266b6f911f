"""Reading and writing of `JobStatus`: the fields of a job's status that v1 does not have, and the times.

`conditions.py` adds conditions and counts to them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from steelyard.operator.training.model import JobStatus, Replica, ReplicaId
from steelyard_common.types import Json, sequence
from steelyard_kube.times import format_time, parse_optional_time

NAMES = frozenset(
    {"replicas", "restarts", "disruptions", "failures", "restartAt", "startTime", "completionTime", "ports",
     "framework", "results"}
)  # fmt: skip
"""Names of the status fields that `status_fields` makes."""


def read_status(status: Mapping[str, Any]) -> JobStatus:
    """Read what an earlier reconciliation wrote; a new job has an empty status."""
    replicas = [_replica(entry) for entry in sequence(status, "replicas")]
    ports = {
        ReplicaId(entry["type"], entry["index"]): int(entry["port"]) for entry in sequence(status, "ports")
    }
    return JobStatus(
        replicas={replica.replica_id: replica for replica in replicas},
        restarts=int(status.get("restarts") or 0),
        disruptions=int(status.get("disruptions") or 0),
        failures=tuple(sequence(status, "failures")),
        restart_at=parse_optional_time(status.get("restartAt")),
        started=parse_optional_time(status.get("startTime")),
        completed=parse_optional_time(status.get("completionTime")),
        ports=ports,
        framework=status.get("framework"),
        results=status.get("results"),
        conditions=tuple(sequence(status, "conditions")),
    )


def status_fields(status: JobStatus) -> Json:
    """Make the fields of the status; empty ones are left out."""
    ports = [
        {"type": replica_id.role, "index": replica_id.index, "port": port}
        for replica_id, port in status.ports.items()
    ]
    fields: Json = {
        "startTime": _text(status.started),
        "completionTime": _text(status.completed),
        "replicas": [_replica_fields(replica) for replica in status.replicas.values()],
        "restarts": status.restarts,
        "disruptions": status.disruptions,
        "failures": list(status.failures),
        "restartAt": _text(status.restart_at),
        "ports": ports,
        "framework": status.framework,
        "results": status.results,
    }
    return {name: value for name, value in fields.items() if value or value == 0}


def _replica(entry: Json) -> Replica:
    return Replica(
        replica_id=ReplicaId(str(entry["type"]), int(entry["index"])),
        attempt=int(entry.get("attempt") or 0),
        pod=entry.get("pod") or "",
        uid=entry.get("uid") or "",
        phase=entry.get("phase") or "Pending",
        restarts=int(entry.get("restarts") or 0),
        in_place=int(entry.get("inPlace") or 0),
        exit_code=entry.get("exitCode"),
        reason=entry.get("reason") or "",
        node=entry.get("node") or "",
        started=parse_optional_time(entry.get("startedAt")),
    )


def _replica_fields(replica: Replica) -> Json:
    fields: Json = {
        "type": replica.replica_id.role,
        "index": replica.replica_id.index,
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


def _text(when: datetime | None) -> str | None:
    return format_time(when) if when else None
