"""How far a workflow is, and what it waits for: the progress that its step keeps in storage, never in a status.

Not of the published API. The command line and the demo show its one line.
"""

import json
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from steelyard.api.entities.loading import load
from steelyard.api.http.context import Call, answer
from steelyard.schema.answers import WorkflowProgress
from steelyard.schema.dependencies import dependencies
from steelyard.schema.entities import AnyEntity
from steelyard.schema.names import PROGRESS, place
from steelyard.schema.status import SUCCESS, TERMINAL
from steelyard.storage.store import StorageError

_WORDS = {
    "Incomplete": "waiting for its first answers",
    "Unverified": "verifying the outputs",
    "Restarted": "starting again",
    "Starting": "its replicas are starting",
}
"""What the published reasons of a workflow that runs mean, where it says nothing more."""
_VERBS = {"Model": "fetching", "Evaluation": "asking", "Report": "scoring", "Audit": "putting together"}


async def progress(call: Call) -> Response:
    """Progress of an entity; while it waits, what it waits for; at its end, what it used and is deleted."""
    entity = await load(call)
    kept = await _kept(call, entity.kind, entity.id) if entity.status == "Admitted" else {}
    line = _line(entity.kind, kept) or _in_words(entity.status, entity.reason, entity.message)
    if entity.status == "Created" and (what := await _waited_for(call, entity)):
        line = what
    if entity.status in TERMINAL and (gone := await _deleted(call, entity)):
        line = f"{line}; {gone}" if line else gone
    return answer(
        WorkflowProgress(
            status=entity.status,
            reason=entity.reason,
            message=line or None,
            unit=kept.get("unit"),
            done=kept.get("done"),
            total=kept.get("total") or None,
        )
    )


async def _waited_for(call: Call, entity: AnyEntity) -> str:
    """`waiting for Model m (fetching: 62 %)`; empty where it waits for nothing of its own."""
    for need in dependencies(entity):
        text = await call.api.entities.get(need.kind, need.id)
        other = json.loads(text) if text is not None else None
        if other is None or other["status"] in SUCCESS:
            continue
        name = other.get("name") or need.id
        kept = await _kept(call, need.kind, need.id) if other["status"] not in TERMINAL else {}
        said = (other["status"], _in_words(other["status"], other.get("reason"), None))
        how = _line(need.kind, kept) or ", ".join(filter(None, said))
        return f"waiting for {need.kind} {name} ({how})"
    return ""


async def _deleted(call: Call, entity: AnyEntity) -> str:
    """`it used Report 0123…, which is deleted`; empty where all is there. Its numbers stay what they are."""
    gone = []
    for used in dependencies(entity):
        text = await call.api.entities.get(used.kind, used.id)
        if text is None or orjson.loads(text)["status"] == "Deleted":
            gone.append(f"{used.kind} {used.id}")
    if not gone:
        return ""
    return f"it used {', '.join(gone)}, which {'is' if len(gone) == 1 else 'are'} deleted"


def _in_words(status: str, reason: str | None, message: str | None) -> str:
    """`QuotaLimit: position 7`; of what runs, no reason that its words do not need."""
    if status == "Admitted" and reason in _WORDS:
        return message or _WORDS[reason]
    return ": ".join(filter(None, (reason, message)))


def _line(kind: str, kept: Mapping[str, Any]) -> str:
    """`fetching: 62 %`."""
    if not kept:
        return ""
    done, total = kept["done"], kept["total"]
    verb = _VERBS.get(kind, "running")
    return f"{verb}: {100 * done // total} %" if total else f"{verb}: {done} {kept.get('unit', '')}".rstrip()


async def _kept(call: Call, kind: str, id: str) -> Mapping[str, Any]:
    try:
        found = orjson.loads(await call.api.platform.store.get(f"{place(kind, id)}/{PROGRESS}"))
    except (StorageError, orjson.JSONDecodeError):
        return {}  # there is none yet: it says nothing, and that is no failure
    numbers = isinstance(found, dict) and all(isinstance(found.get(name), int) for name in ("done", "total"))
    return found if numbers else {}
