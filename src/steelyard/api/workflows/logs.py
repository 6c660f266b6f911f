"""Handlers of a workflow's logs: the pieces that steps keep in storage, and the logs of other containers.

A step writes pieces of its log to `.dyff/logs/<pod uid>/<n>` below its entity's output, every few seconds at most.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from pathlib import Path

import orjson
from starlette.responses import Response

from steelyard.api.datasets.downlinks import link
from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid, NotFound
from steelyard.api.http.responses import model_response
from steelyard.api.spool import make_folder
from steelyard.api.workflows.pod_logs import MOST_LINES, timestamp
from steelyard_evaluation.storage.store import ObjectInfo, ObjectMissing, Store
from steelyard_schema.answers import WorkflowLogEntry, WorkflowLogsResponse
from steelyard_schema.base import EntityIdentifier
from steelyard_schema.data import Artifact
from steelyard_schema.entities import AnyEntity
from steelyard_schema.names import LOG_PIECES, WHOLE_LOG, place
from steelyard_schema.status import TERMINAL

_NUMBER = re.compile(r"[0-9]{1,6}")
_SINCE = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


async def workflow_logs(context: RequestContext) -> Response:
    """The newest lines, oldest of them first."""
    entity = await load(context)
    text = context.query.get("limit") or "1000"
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= MOST_LINES:
        raise Invalid(f"limit: {text!r} is not a whole number from 1 to {MOST_LINES}", field="limit")
    newest: deque[WorkflowLogEntry] = deque(maxlen=int(text))
    total = 0
    async for entry in read_lines(context, entity, _since(context)):
        newest.append(entry)
        total += 1
    identifier = EntityIdentifier(id=entity.id, kind=entity.kind)
    return model_response(WorkflowLogsResponse(workflow=identifier, logs=list(newest), totalLines=total))


async def whole_log(context: RequestContext) -> Response:
    """A signed URL of the log as one file, once the workflow has ended."""
    entity = await load(context)
    store = context.api.platform.store
    if entity.status not in TERMINAL or not (await _is_whole(store, entity) or await _store(context, entity)):
        raise NotFound(f"id: {entity.kind} {entity.id} has no whole log; logs/workflow has what there is")
    return model_response(await link(context, entity, Artifact(kind="txt", path=WHOLE_LOG)))


async def read_lines(
    context: RequestContext, entity: AnyEntity, since: datetime | None
) -> AsyncIterator[WorkflowLogEntry]:
    """Yield the lines of all Pods, oldest first.

    The logs of a session's runners may take gigabytes: only one piece of each Pod is in memory.
    """
    pods = await open_pods(context.api.platform.store, entity, since)
    streams = list(pods.values())
    if context.api.pod_logs is not None:
        others = await context.api.pod_logs.entries(entity, since)

        async def rest() -> AsyncIterator[WorkflowLogEntry]:
            # The kubelet has the logs of our steps too: a Pod with pieces in storage is not listed a second time.
            for entry in sorted(others, key=_time):
                if entry.labels.get("pod_uid") not in pods:
                    yield entry

        streams.append(rest())
    async for entry in merge_streams(streams):
        yield entry


async def open_pods(
    store: Store, entity: AnyEntity, since: datetime | None
) -> dict[str, AsyncIterator[WorkflowLogEntry]]:
    """Return the stored lines of each Pod, by its uid. They are read as they are asked for."""
    prefix = f"{place(entity.kind, entity.id)}/{LOG_PIECES}"
    pods: dict[str, list[ObjectInfo]] = {}
    async for info in store.list(prefix):
        pods.setdefault(info.key.removeprefix(prefix).partition("/")[0], []).append(info)
    return {uid: _read_pieces(store, uid, pieces, since) for uid, pieces in pods.items()}


async def _read_pieces(
    store: Store, uid: str, pieces: list[ObjectInfo], since: datetime | None
) -> AsyncIterator[WorkflowLogEntry]:
    def parse(content: bytes, written: str) -> list[WorkflowLogEntry]:
        lines = content.decode(errors="replace").splitlines()
        return sorted((_entry(line, written, uid) for line in lines), key=_time)

    for piece in sorted(pieces, key=lambda piece: piece.key):
        if since is not None and piece.last_modified < since:
            continue  # its newest line is older still
        content, written = await store.get(piece.key), timestamp(piece.last_modified)
        for entry in await asyncio.to_thread(parse, content, written):
            if since is None or entry.timestamp >= timestamp(since):
                yield entry


async def merge_streams(
    streams: Sequence[AsyncIterator[WorkflowLogEntry]],
) -> AsyncIterator[WorkflowLogEntry]:
    """Yield the lines of all streams by their times; each stream gives its own in that order."""
    heads = [
        (first.timestamp, number, first)
        for number, stream in enumerate(streams)
        if (first := await anext(stream, None)) is not None
    ]
    heapify(heads)
    while heads:
        _, number, entry = heads[0]
        yield entry
        following = await anext(streams[number], None)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (following.timestamp, number, following))


def _time(entry: WorkflowLogEntry) -> str:
    return entry.timestamp


def _entry(line: str, written: str, uid: str) -> WorkflowLogEntry:
    """Parse a line: a step's is JSON with its time; any other line gets the time at which its piece was written."""
    labels = {"pod_uid": uid}
    try:
        content = orjson.loads(line)
        time = timestamp(datetime.fromisoformat(content["time"]))
        labels |= {name: str(content[name]) for name in ("step", "level", "container") if name in content}
        if "container" in content:  # a line of a runner, whose time was noted beside it
            line = str(content["message"])
    except (ValueError, KeyError, TypeError):
        time = written
    return WorkflowLogEntry(timestamp=time, message=line, labels=labels)


async def _is_whole(store: Store, entity: AnyEntity) -> bool:
    """Return whether the log in one file holds every piece: Pods may have written more since it was stored."""
    prefix = place(entity.kind, entity.id)
    try:
        stored = (await store.head(f"{prefix}/{WHOLE_LOG}")).last_modified
    except ObjectMissing:
        return False
    return all([info.last_modified <= stored async for info in store.list(f"{prefix}/{LOG_PIECES}")])


async def _store(context: RequestContext, entity: AnyEntity) -> bool:
    """Store the log in one file; return False if there are no lines."""
    platform = context.api.platform
    with make_folder(platform.settings, "steelyard-log-") as folder:
        path = Path(folder) / "log"
        with path.open("wb") as file:
            async for entry in read_lines(context, entity, None):
                file.write(f"{entry.message}\n".encode())
        if not path.stat().st_size:
            return False
        await platform.store.put_file(f"{place(entity.kind, entity.id)}/{WHOLE_LOG}", path)
    return True


def _since(context: RequestContext) -> datetime | None:
    text = context.query.get("since")
    if not text:
        return None
    match = _SINCE.fullmatch(text)
    if match is None:
        raise Invalid(f"since: {text!r} should be a time span such as 30m, 1h or 2d", field="since")
    try:
        return context.now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        return None  # before the first year: every line is later
