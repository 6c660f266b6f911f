"""UpdateEntityStatus commands, as the orchestrator and the informer send them."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from steelyard.broker.log import EVENTS, Message
from steelyard_schema.base import SCHEMA_VERSION
from steelyard_schema.bounds import MESSAGE_LENGTH, REASON_LENGTH, cut
from steelyard_schema.commands import command_time
from steelyard_schema.status import Source

NAMESPACE = "namespace"
"""Header of a command that a resource led to: the resource's namespace. It counts only if it is the entity's own."""


@dataclass(frozen=True)
class Status:
    """The status that an entity should have; a reason or message of None is cleared."""

    status: str
    reason: str | None = None
    message: str | None = None


def status_command(
    id: str,
    kind: str,
    status: Status,
    *,
    source: Source,
    time: datetime,
    command: str,
    traceparent: str | None = None,
) -> Message:
    """Return the command as a message of the log. `command` is its id: the same for the same change sent twice.

    Texts that come from a Pod are cut to length, and made text that can be written.
    """
    reason, message = cut(status.reason, REASON_LENGTH), cut(status.message, MESSAGE_LENGTH)
    attributes = {"status": status.status, "reason": reason, "message": message}
    data = {"id": id, "kind": kind, "attributes": attributes}
    content = {"schemaVersion": SCHEMA_VERSION, "command": "UpdateEntityStatus", "data": data}
    headers = {"id": command, "source": source, "time": command_time(time)}
    if traceparent:
        headers["traceparent"] = traceparent
    return Message(EVENTS, id, json.dumps(content, ensure_ascii=False).encode(), headers)


def command_id(*parts: str) -> str:
    """Return 32 hexadecimal digits that depend on nothing but the parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
