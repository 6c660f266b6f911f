"""What a workflow's Pods have written: the steps' own pieces in storage, and what runners of others say.

A step writes pieces of its log to `.dyff/logs/<pod uid>/<n>` below its entity's output, at most every few seconds. Of
containers that are not ours `PodLogs` tells: on one machine their files, on a cluster whatever keeps logs there.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import orjson
from starlette.responses import Response

from steelyard.api.datasets.downlinks import link
from steelyard.api.entities.loading import load
from steelyard.api.http.context import Call, answer
from steelyard.api.http.errors import Invalid, NotFound
from steelyard.schema.answers import WorkflowLogEntry, WorkflowLogsResponse
from steelyard.schema.base import EntityIdentifier
from steelyard.schema.data import Artifact
from steelyard.schema.entities import AnyEntity
from steelyard.schema.names import LOG_PIECES, WHOLE_LOG, namespace_of, place, resource_name
from steelyard.schema.status import TERMINAL
from steelyard.storage.store import ObjectMissing, Store

_NUMBER = re.compile(r"[0-9]{1,6}")
_SINCE = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_MOST = 100_000
"""Lines that are looked at for one answer: the newest ones."""


class PodLogs(Protocol):
    """Logs of containers that do not write them to storage."""

    async def entries(self, entity: AnyEntity, since: datetime | None) -> Sequence[WorkflowLogEntry]:
        """In any order."""
        ...


async def workflow_logs(call: Call) -> Response:
    """The newest lines, oldest first."""
    entity = await load(call)
    limit, since = _limit(call), _since(call)
    entries = await collect(call, entity, since)
    identifier = EntityIdentifier(id=entity.id, kind=entity.kind)
    return answer(WorkflowLogsResponse(workflow=identifier, logs=entries[-limit:], totalLines=len(entries)))


async def whole_log(call: Call) -> Response:
    """A URL of the log as one file, once the workflow has ended."""
    entity = await load(call)
    store = call.api.platform.store
    if entity.status not in TERMINAL or not (await _is_whole(store, entity) or await _keep(call, entity)):
        raise NotFound(f"id: {entity.kind} {entity.id} has no whole log; logs/workflow has what there is")
    return answer(link(call, entity, Artifact(kind="txt", path=WHOLE_LOG)))


async def collect(call: Call, entity: AnyEntity, since: datetime | None) -> list[WorkflowLogEntry]:
    """Everything that is there, in order of time."""
    entries = [each async for each in _stored(call.api.platform.store, entity, since)]
    if call.api.pod_logs is not None:
        steps = {each.labels["pod_uid"] for each in entries}
        others = await call.api.pod_logs.entries(entity, since)
        entries += [each for each in others if each.labels.get("pod_uid") not in steps]
    return sorted(entries, key=lambda each: each.timestamp)[-_MOST:]


class FolderPodLogs:
    """The files that one machine's kubelet keeps: `<pods>/<uid>/pod.json`, `<pods>/<uid>/<container>/<n>.log`."""

    def __init__(self, pods: Path) -> None:
        self._pods = pods

    async def entries(self, entity: AnyEntity, since: datetime | None) -> Sequence[WorkflowLogEntry]:
        return await asyncio.to_thread(self._read, entity, since)

    def _read(self, entity: AnyEntity, since: datetime | None) -> list[WorkflowLogEntry]:
        namespace, begin = namespace_of(entity.account), f"{resource_name(entity.kind, entity.id)}-"
        found = []
        for about in self._pods.glob("*/pod.json"):
            pod = orjson.loads(about.read_bytes())
            if pod["namespace"] == namespace and pod["name"].startswith(begin):
                for log in sorted(about.parent.glob("*/*.log")):
                    labels = {"pod": pod["name"], "pod_uid": pod["uid"], "container": log.parent.name}
                    found += _cri_lines(log, labels, since)
        return found


def _cri_lines(log: Path, labels: dict[str, str], since: datetime | None) -> list[WorkflowLogEntry]:
    lines = (line.split(" ", 3) for line in log.read_text(errors="replace").splitlines()[-_MOST:])
    return [
        WorkflowLogEntry(timestamp=parts[0], message=parts[3], labels={**labels, "stream": parts[1]})
        for parts in lines
        if len(parts) == 4 and (since is None or parts[0] >= _text(since))
    ]


async def _stored(store: Store, entity: AnyEntity, since: datetime | None) -> AsyncIterator[WorkflowLogEntry]:
    prefix = f"{place(entity.kind, entity.id)}/{LOG_PIECES}"
    pieces = [info async for info in store.list(prefix)]
    for info in sorted(pieces, key=lambda each: each.last_modified):
        if since is not None and info.last_modified < since:
            continue  # its newest line is older still
        uid = info.key.removeprefix(prefix).partition("/")[0]
        written = _text(info.last_modified)
        for line in (await store.get(info.key)).decode(errors="replace").splitlines():
            entry = _entry(line, written, uid)
            if since is None or entry.timestamp >= _text(since):
                yield entry


def _entry(line: str, written: str, uid: str) -> WorkflowLogEntry:
    """A step's line is JSON with its time; anything else gets the time of its piece."""
    labels = {"pod_uid": uid}
    try:
        content = orjson.loads(line)
        time = _text(datetime.fromisoformat(content["time"]))
        labels |= {name: str(content[name]) for name in ("step", "level") if name in content}
    except (ValueError, KeyError, TypeError):
        time = written
    return WorkflowLogEntry(timestamp=time, message=line, labels=labels)


async def _is_whole(store: Store, entity: AnyEntity) -> bool:
    """Whether the log that is kept was kept after every piece: Pods may write on while others have ended."""
    prefix = place(entity.kind, entity.id)
    try:
        kept = (await store.head(f"{prefix}/{WHOLE_LOG}")).last_modified
    except ObjectMissing:
        return False
    return all([info.last_modified <= kept async for info in store.list(f"{prefix}/{LOG_PIECES}")])


async def _keep(call: Call, entity: AnyEntity) -> bool:
    """Put what there is into the one file; False where there is nothing."""
    entries = await collect(call, entity, None)
    if entries:
        lines = "".join(f"{each.message}\n" for each in entries)
        await call.api.platform.store.put(f"{place(entity.kind, entity.id)}/{WHOLE_LOG}", lines.encode())
    return bool(entries)


def _limit(call: Call) -> int:
    text = call.query.get("limit") or "1000"
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= _MOST:
        raise Invalid(f"limit: {text!r} is not a whole number from 1 to {_MOST}", field="limit")
    return int(text)


def _since(call: Call) -> datetime | None:
    text = call.query.get("since")
    if not text:
        return None
    found = _SINCE.fullmatch(text)
    if found is None:
        raise Invalid(f"since: {text!r} should be a time span such as 30m, 1h or 2d", field="since")
    try:
        return call.now - timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        return None  # before the calendar begins: everything is later


def _text(time: datetime) -> str:
    """Comparable as text."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
