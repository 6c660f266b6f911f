"""Handlers of a workflow's logs: the pieces that steps keep in storage, and the logs of other containers.

A step writes pieces of its log to `.dyff/logs/<pod uid>/<n>` below its entity's output, every few seconds at most.
"""

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import orjson
from starlette.responses import Response

from steelyard.api.datasets.downlinks import link
from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid, NotFound
from steelyard.api.http.responses import model_response
from steelyard.api.workflows.pod_logs import MOST_LINES, timestamp
from steelyard_evaluation.storage.store import ObjectMissing, Store
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
    limit, since = int(text), _since(context)
    entries = await collect(context, entity, since)
    identifier = EntityIdentifier(id=entity.id, kind=entity.kind)
    return model_response(
        WorkflowLogsResponse(workflow=identifier, logs=entries[-limit:], totalLines=len(entries))
    )


async def whole_log(context: RequestContext) -> Response:
    """A signed URL of the log as one file, once the workflow has ended."""
    entity = await load(context)
    store = context.api.platform.store
    if entity.status not in TERMINAL or not (await _is_whole(store, entity) or await _store(context, entity)):
        raise NotFound(f"id: {entity.kind} {entity.id} has no whole log; logs/workflow has what there is")
    return model_response(await link(context, entity, Artifact(kind="txt", path=WHOLE_LOG)))


async def collect(
    context: RequestContext, entity: AnyEntity, since: datetime | None
) -> list[WorkflowLogEntry]:
    """Return the lines of all Pods, oldest first."""
    entries = [entry async for entry in _read_stored(context.api.platform.store, entity, since)]
    if context.api.pod_logs is not None:
        # The kubelet has the logs of our steps too: a Pod with pieces in storage is not listed a second time.
        steps = {entry.labels["pod_uid"] for entry in entries}
        others = await context.api.pod_logs.entries(entity, since)
        entries += [entry for entry in others if entry.labels.get("pod_uid") not in steps]
    return sorted(entries, key=lambda entry: entry.timestamp)


async def _read_stored(
    store: Store, entity: AnyEntity, since: datetime | None
) -> AsyncIterator[WorkflowLogEntry]:
    prefix = f"{place(entity.kind, entity.id)}/{LOG_PIECES}"
    pieces = [info async for info in store.list(prefix)]
    for piece in sorted(pieces, key=lambda piece: piece.last_modified):
        if since is not None and piece.last_modified < since:
            continue  # its newest line is older still
        uid = piece.key.removeprefix(prefix).partition("/")[0]
        written = timestamp(piece.last_modified)
        for line in (await store.get(piece.key)).decode(errors="replace").splitlines():
            entry = _entry(line, written, uid)
            if since is None or entry.timestamp >= timestamp(since):
                yield entry


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
    entries = await collect(context, entity, None)
    if entries:
        lines = "".join(f"{entry.message}\n" for entry in entries)
        await context.api.platform.store.put(f"{place(entity.kind, entity.id)}/{WHOLE_LOG}", lines.encode())
    return bool(entries)


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
