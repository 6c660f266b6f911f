"""What a controller wants done, as a value: each controller's `decide` makes one, `sync.py` carries it out."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from steelyard.kube.events import EventType
from steelyard.types import Json

FIRST_BATCH, LARGEST_BATCH = 8, 256  # Pods made or deleted in one decision
MOST_PODS = 2000  # of one owner at once: the node takes 1,000 in all, and each that waits takes memory
LONGEST_WAIT = 86_400.0  # seconds until a next look; a deadline may lie centuries ahead


@dataclass(frozen=True)
class Event:
    """Something that a user wants to read in `kubectl describe`."""

    reason: str
    message: str
    type: EventType = "Normal"


@dataclass(frozen=True)
class Decision:
    """Nothing wanted is falsy. The status is written first: what is counted is durable before Pods change."""

    status: Json | None = None
    create: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()
    patch: tuple[tuple[Json, Json], ...] = ()  # an object and its merge patch
    events: tuple[Event, ...] = ()
    look_again: float | None = field(default=None, compare=False)  # seconds from now
    more: bool = False  # this is a batch of what is wanted: the next one after other objects' turns

    def __bool__(self) -> bool:
        return bool(self.status is not None or self.create or self.delete or self.patch)


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def seconds_left(since: str, seconds: float, now: datetime) -> float:
    """Until `seconds` after `since`, which may be later than any date that there is."""
    return float(seconds) - (now - parse_time(since)).total_seconds()


def batch(there: int) -> int:
    """How many children an owner with so many is given or loses in one decision: slowly at first, then twice as
    many as there are. What is not yet made takes no memory, and a template that is refused is refused to few."""
    return min(max(there, FIRST_BATCH), LARGEST_BATCH)


def with_condition(
    conditions: list[Json], wanted: Json, now: datetime, *, stamp: str = "lastProbeTime"
) -> list[Json]:
    """The conditions with `wanted` (type, status, reason, message) among them; times move when the status does."""
    at = rfc3339(now)
    fresh = {**wanted, "lastTransitionTime": at, stamp: at}
    result, found = [], False
    for each in conditions:
        if each.get("type") != wanted["type"]:
            result.append(each)
            continue
        if all(each.get(key) == value for key, value in wanted.items()):
            return conditions
        if each.get("status") == wanted["status"]:
            fresh["lastTransitionTime"] = each.get("lastTransitionTime", at)
        result.append(fresh)
        found = True
    return result if found else [*result, fresh]
