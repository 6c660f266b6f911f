"""Occurrences in the life of a workflow's run, as its entity's states show them. Pure.

A state tells the present, not the past: `Runs` remembers which runs have begun. It is stored with the consumer's
positions, so that a restart repeats at most the reports since it was stored last.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from steelyard_common.types import Json
from steelyard_schema.data_source import UPLOAD
from steelyard_schema.dependencies import DATA_SOURCE
from steelyard_schema.status import ENDINGS, FAILURE, KINDS, SUCCESS, WITHOUT_WORKFLOW

EventType = Literal["START", "COMPLETE", "FAIL", "ABORT"]
REMEMBERED = 10_000
"""Number of ended entities whose later edits are known to be no second end."""


@dataclass(frozen=True)
class Occurrence:
    """One event of a run. `attempt` counts from 1; an entity that is restored while it runs has a second one."""

    type: EventType
    time: datetime
    attempt: int


@dataclass
class Runs:
    """Runs that have begun and not ended, and runs that a deletion ended, by entity id with their attempts."""

    running: dict[str, int] = field(default_factory=dict)
    aborted: dict[str, int] = field(default_factory=dict)
    _ended: "OrderedDict[str, datetime]" = field(default_factory=OrderedDict)

    def occurrences(self, content: Json, commanded: datetime) -> list[Occurrence]:
        """Return what a state shows that was not reported before; `commanded` is the time of its last command."""
        id, kind, status = content["id"], content["kind"], content["status"]
        if kind not in KINDS or kind in WITHOUT_WORKFLOW or _is_uploaded(content):
            return []
        created = datetime.fromisoformat(content["creationTime"])
        since = datetime.fromisoformat(content.get("lastTransitionTime") or content["creationTime"])
        running = self.running.get(id)
        attempt = running or self.aborted.get(id, 0) + 1
        if status == "Admitted":
            return [] if running else [Occurrence("START", since, attempt)]
        if status == "Deleted":
            return [Occurrence("ABORT", since, attempt)] if running else []
        if (type := _end(kind, status)) is None or self._ended.get(id) == since:
            return []
        end = Occurrence(type, since, attempt)
        # An end that this state does not bring about was reported before, or its record was compacted away: it is
        # reported again, for twice is better than never. A beginning that was never reported is reported with its end.
        unseen = running is None and commanded == since
        return [Occurrence("START", created, attempt), end] if unseen else [end]

    def note(self, id: str, occurrence: Occurrence, *, deleted: bool = False) -> None:
        """Remember the reports."""
        if occurrence.type == "START":
            self.running[id] = occurrence.attempt
            return
        self.running.pop(id, None)
        if deleted:
            self.aborted[id] = occurrence.attempt
            return
        self._ended[id] = occurrence.time
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def forget(self, id: str) -> None:
        """Remove everything about a forgotten entity."""
        self.running.pop(id, None)
        self.aborted.pop(id, None)


def _is_uploaded(content: Json) -> bool:
    """Return whether an entity is a dataset or a data source of uploaded files, which has no run."""
    if content["kind"] == "DataSource":
        return bool(content["sourceKind"] == UPLOAD)
    notes = content.get("annotations") or ()
    return bool(content["kind"] == "Dataset") and all(note["key"] != DATA_SOURCE for note in notes)


def _end(kind: str, status: str) -> EventType | None:
    if status in SUCCESS or status == ENDINGS[kind][0]:
        return "COMPLETE"
    if status in FAILURE:
        return "FAIL"
    return "ABORT" if status == "Terminated" else None
