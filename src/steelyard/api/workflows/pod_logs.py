"""Logs of containers that do not write them to storage, such as model servers of others.

On one machine they are the kubelet's files; on a cluster, whatever keeps logs there may implement `PodLogs`.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Protocol

import orjson

from steelyard_common.line_files import lines_backwards
from steelyard_schema.answers import WorkflowLogEntry
from steelyard_schema.entities import AnyEntity
from steelyard_schema.names import account_namespace, resource_name

MOST_LINES = 100_000
"""Lines of a log that are read for one answer: the newest."""


class PodLogs(Protocol):
    """Logs of the containers of workflows."""

    async def entries(self, entity: AnyEntity, since: datetime | None) -> Sequence[WorkflowLogEntry]:
        """Return the lines of an entity's workflow, in any order."""
        ...


class FolderPodLogs:
    """The kubelet's files on one machine: `<pods>/<uid>/pod.json`, `<pods>/<uid>/<container>/<n>.log`."""

    def __init__(self, pods: Path) -> None:
        self._pods = pods

    async def entries(self, entity: AnyEntity, since: datetime | None) -> Sequence[WorkflowLogEntry]:
        return await asyncio.to_thread(self._read, entity, since)

    def _read(self, entity: AnyEntity, since: datetime | None) -> list[WorkflowLogEntry]:
        namespace, prefix = account_namespace(entity.account), f"{resource_name(entity.kind, entity.id)}-"
        entries = []
        for file in self._pods.glob("*/pod.json"):
            pod = orjson.loads(file.read_bytes())
            if pod["namespace"] == namespace and pod["name"].startswith(prefix):
                for log in sorted(file.parent.glob("*/*.log")):
                    labels = {"pod": pod["name"], "pod_uid": pod["uid"], "container": log.parent.name}
                    entries += _cri_entries(log, labels, since)
        return entries


def timestamp(time: datetime) -> str:
    """Return a time as text in UTC with microseconds: such texts sort as the times do."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _cri_entries(log: Path, labels: dict[str, str], since: datetime | None) -> list[WorkflowLogEntry]:
    """Return the lines of a file in the format of the Container Runtime Interface: `<time> <stream> <tag> <text>`."""
    first = timestamp(since) if since is not None else ""
    entries = []
    with log.open("rb") as file:
        for _, line in islice(lines_backwards(file), MOST_LINES):
            parts = line.decode(errors="replace").rstrip("\n").split(" ", 3)
            if len(parts) == 4 and parts[0] >= first:
                labels_of_line = {**labels, "stream": parts[1]}
                entries.append(WorkflowLogEntry(timestamp=parts[0], message=parts[3], labels=labels_of_line))
    return entries[::-1]
