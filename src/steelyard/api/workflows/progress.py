"""Handler of a workflow's progress, which its step keeps in storage and never in the entity's status.

The published API has no such route. The command line and the demo show the one line of its message.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import model_response
from steelyard_evaluation.storage.store import StorageError
from steelyard_schema.answers import WorkflowProgress
from steelyard_schema.dependencies import dependencies
from steelyard_schema.entities import AnyEntity
from steelyard_schema.names import PROGRESS, place
from steelyard_schema.status import SUCCESS, TERMINAL

_REASONS = {
    "Incomplete": "waiting for its first answers",
    "Unverified": "verifying the outputs",
    "Restarted": "starting again",
    "Starting": "its replicas are starting",
}
"""Texts for the published reasons of a running workflow that has no message."""
_VERBS = {
    "Audit": "putting together",
    "DataSource": "fetching",
    "Dataset": "reading",
    "Evaluation": "asking",
    "Model": "fetching",
    "Report": "scoring",
}


async def progress(context: RequestContext) -> Response:
    """Progress of a workflow; while it waits, for what; at its end, which of the entities it used are deleted."""
    entity = await load(context)
    stored = await _read_stored(context, entity.kind, entity.id) if entity.status == "Admitted" else {}
    message = _line(entity.kind, stored) or _status_text(entity.status, entity.reason, entity.message)
    if entity.status == "Created":
        message = await _describe_waiting(context, entity) or message
    if entity.status in TERMINAL and (deleted := await _describe_deleted(context, entity)):
        message = f"{message}; {deleted}" if message else deleted
    return model_response(
        WorkflowProgress(
            status=entity.status,
            reason=entity.reason,
            message=message or None,
            unit=stored.get("unit"),
            done=stored.get("done"),
            total=stored.get("total") or None,
        )
    )


async def _describe_waiting(context: RequestContext, entity: AnyEntity) -> str:
    """Return `waiting for Model m (fetching: 62 %)`; empty if all that the entity depends on is there."""
    for dependency in dependencies(entity):
        json = await context.api.entities.get(dependency.kind, dependency.id)
        other = orjson.loads(json) if json is not None else None
        if other is None or other["status"] in SUCCESS:
            continue
        name, status = other.get("name") or dependency.id, other["status"]
        stored = await _read_stored(context, dependency.kind, dependency.id) if status not in TERMINAL else {}
        texts = (status, _status_text(status, other.get("reason"), None))
        how = _line(dependency.kind, stored) or ", ".join(filter(None, texts))
        return f"waiting for {dependency.kind} {name} ({how})"
    return ""


async def _describe_deleted(context: RequestContext, entity: AnyEntity) -> str:
    """Return `it used Report 0123…, which is deleted`; empty if nothing is. The entity's numbers stay what they are."""
    deleted = []
    for used in dependencies(entity):
        json = await context.api.entities.get(used.kind, used.id)
        if json is None or orjson.loads(json)["status"] == "Deleted":
            deleted.append(f"{used.kind} {used.id}")
    if not deleted:
        return ""
    return f"it used {', '.join(deleted)}, which {'is' if len(deleted) == 1 else 'are'} deleted"


def _status_text(status: str, reason: str | None, message: str | None) -> str:
    """Return reason and message, such as `QuotaLimit: position 7`; for a running workflow, a text alone."""
    if status == "Admitted" and reason in _REASONS:
        return message or _REASONS[reason]
    return ": ".join(filter(None, (reason, message)))


def _line(kind: str, progress: Mapping[str, Any]) -> str:
    """Return `fetching: 62 %`; empty without progress."""
    if not progress:
        return ""
    done, total = progress["done"], progress["total"]
    verb = _VERBS.get(kind, "running")
    return (
        f"{verb}: {100 * done // total} %" if total else f"{verb}: {done} {progress.get('unit', '')}".rstrip()
    )


async def _read_stored(context: RequestContext, kind: str, id: str) -> Mapping[str, Any]:
    """Return the progress that a step has stored, or an empty mapping."""
    try:
        progress = orjson.loads(await context.api.platform.store.get(f"{place(kind, id)}/{PROGRESS}"))
    except (StorageError, orjson.JSONDecodeError):
        return {}  # a step that has just begun has stored none
    has_numbers = isinstance(progress, dict) and all(
        isinstance(progress.get(name), int) for name in ("done", "total")
    )
    return progress if has_numbers else {}
