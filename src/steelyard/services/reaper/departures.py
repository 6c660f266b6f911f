"""Departures: deleted and forgotten entities, with the end of the time in which they can be restored.

`steelyard backup forgotten` prints it.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from steelyard.broker.log import STATE, Log, Record
from steelyard.broker.scan import topic_pieces
from steelyard.services.aggregator.messages import read_state
from steelyard.services.reaper.files import find_namers, read_marker
from steelyard_common.types import Json
from steelyard_schema.retention import files_until, forget_time

_DELETED = b'"Deleted"'
HEADINGS = ("STATUS", "KIND", "ID", "FORGOTTEN", "FILES UNTIL", "KEPT BY")


@dataclass(frozen=True)
class Departure:
    """An entity that goes."""

    id: str
    kind: str
    status: Literal["Deleted", "Forgotten"]
    forgotten: datetime
    """Time at which it was, or will be, forgotten."""
    kept_by: str = ""
    """Id of an entity that names this one: as long as it is there, the files stay."""

    @property
    def files_until(self) -> datetime:
        """Time until which the entity can be restored, and after which its files go."""
        return files_until(self.forgotten)

    def row(self) -> tuple[str, ...]:
        times = (time.isoformat(timespec="minutes") for time in (self.forgotten, self.files_until))
        return (self.status, self.kind, self.id, *times, self.kept_by or "-")

    def dump(self) -> Json:
        return {
            "id": self.id,
            "kind": self.kind,
            "status": self.status,
            "forgotten": self.forgotten.isoformat(),
            "filesUntil": self.files_until.isoformat(),
            "keptBy": self.kept_by or None,
        }


async def departures(log: Log) -> list[Departure]:
    """Return all deleted and forgotten entities, the next to go first."""
    going: dict[str, Departure] = {}
    async for records in topic_pieces(log, STATE):
        going |= {departure.id: departure for record in records if (departure := _departure(record))}
    kept = await find_namers(log, going.keys())
    named = [replace(departure, kept_by=kept.get(id, "")) for id, departure in going.items()]
    return sorted(named, key=lambda departure: (departure.forgotten, departure.id))


def _departure(record: Record) -> Departure | None:
    if (marker := read_marker(record)) is not None:
        return Departure(marker.id, marker.kind, "Forgotten", marker.forgotten)
    if record.value is None or _DELETED not in record.value:
        return None
    state = read_state(record)
    content = state.content if state else None
    if content is None or content["status"] != "Deleted":
        return None
    since = content.get("lastTransitionTime") or content["creationTime"]
    return Departure(record.key, content["kind"], "Deleted", forget_time(datetime.fromisoformat(since)))
