"""Snapshots of a provider's model: which one its answers name, since a provider may replace what stands behind a name.

The server of a hosted model notes the distinct ones; the evaluation's client asks for them and records them.
"""

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from steelyard_common.types import Json, JsonValue

PATH = "/snapshots"
MOST = 100
"""Most snapshots that are noted: a provider that names another one with each answer must not fill the memory."""
MOST_CHARACTERS = 200


class Snapshot(NamedTuple):
    """The provider's model that an answer names, and the fingerprint of its configuration where it has one."""

    model: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.model} ({self.fingerprint})" if self.fingerprint else self.model


class Snapshots:
    """The distinct snapshots that one server has seen."""

    def __init__(self) -> None:
        self._seen: dict[Snapshot, None] = {}

    def note(self, answer: bytes) -> None:
        """Note the snapshot of an answer."""
        try:
            content = orjson.loads(answer)
        except orjson.JSONDecodeError:
            return
        snapshot = _snapshot(content)
        if snapshot is not None and len(self._seen) < MOST:
            self._seen[snapshot] = None

    def note_event(self, event: bytes) -> bool:
        """Note the snapshot of an event of a stream; return whether the event holds data, as the first does."""
        values = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
        for value in values[:1]:
            self.note(value)
        return bool(values)

    def json(self) -> Json:
        return {"snapshots": [snapshot._asdict() for snapshot in self._seen]}


def snapshots_in(answer: JsonValue) -> list[Snapshot]:
    """Return the snapshots that a server of a hosted model says that it has seen; none where it says something else."""
    listed = answer.get("snapshots") if isinstance(answer, dict) else None
    entries = listed if isinstance(listed, list) else []
    return [
        Snapshot(_text(entry, "model"), _text(entry, "fingerprint"))
        for entry in entries
        if isinstance(entry, dict)
    ]


def _snapshot(answer: JsonValue) -> Snapshot | None:
    if not isinstance(answer, dict):
        return None
    model = _text(answer, "model")
    return Snapshot(model, _text(answer, "system_fingerprint")) if model else None


def _text(content: Mapping[str, JsonValue], name: str) -> str:
    value = content.get(name)
    return value[:MOST_CHARACTERS] if isinstance(value, str) else ""
