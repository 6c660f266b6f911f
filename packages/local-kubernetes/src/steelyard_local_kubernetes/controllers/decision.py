"""Decisions of controllers, as values: each controller's `decide` makes one, `sync.py` carries it out."""

from dataclasses import dataclass, field
from datetime import datetime

import orjson

from steelyard_common.types import Json
from steelyard_kube.events import EventType
from steelyard_kube.times import format_time, parse_time

FIRST_BATCH, LARGEST_BATCH = 8, 256  # Pods made or deleted in one decision
MOST_PODS = 2000  # of one owner at once: the node takes 1,000 in all, and each that waits takes memory
MOST_POD_BYTES = 16 << 20  # of one owner's Pods together: each is a copy of its template
FAILURE = "ReplicaFailure"  # the condition of an owner some of whose children could not be made
LONGEST_WAIT = 86_400.0  # seconds until an object is decided again; a deadline may lie centuries ahead


@dataclass(frozen=True)
class Event:
    """Something that a user wants to read in `kubectl describe`."""

    reason: str
    message: str
    type: EventType = "Normal"


@dataclass(frozen=True)
class Decision:
    """Decision of a controller; an empty one is falsy. The status is written first: counts are durable before
    Pods change. With `children_first` it is written only where a child is refused.
    """

    status: Json | None = None
    annotations: Json | None = None  # of the owner, added in the same write
    create: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()
    patch: tuple[tuple[Json, Json], ...] = ()  # an object and its merge patch
    statuses: tuple[tuple[Json, Json], ...] = ()  # another object and the merge patch of its status
    events: tuple[Event, ...] = ()
    requeue_after: float | None = field(default=None, compare=False)  # seconds from now
    more: bool = (
        False  # this is a batch of the desired objects: the next one follows after other objects' turns
    )
    # The status only counts the children: the next decision's has the new ones in it.
    children_first: bool = False

    def __bool__(self) -> bool:
        written = self.create or self.delete or self.patch or self.statuses
        return bool(self.status is not None or self.annotations or written)


def seconds_until(since: str, seconds: float, now: datetime) -> float:
    """Return the seconds until `seconds` after `since`, which may be later than any date that exists."""
    return float(seconds) - (now - parse_time(since)).total_seconds()


@dataclass
class Room:
    """Pods that one owner may have at once: each is a copy of its template, so that large ones are fewer."""

    pods: int = MOST_PODS
    bytes: int = MOST_POD_BYTES

    def take(self, template: Json, wanted: int) -> int:
        """Return for how many of the wanted Pods there is room, which they take."""
        size = len(orjson.dumps(template))
        taken = min(wanted, self.pods, self.bytes // size)
        self.pods -= taken
        self.bytes -= taken * size
        return taken


def most_pods(template: Json) -> int:
    """Return how many Pods an owner with one template has at once at most."""
    return Room().take(template, MOST_PODS)


def too_many_pods(most: int) -> Json:
    """Return the condition of an owner that asks for more Pods than it is given."""
    message = f"the embedded Kubernetes makes at most {most} Pods of this template for one owner"
    return {"type": FAILURE, "status": "True", "reason": "TooManyReplicas", "message": message}


def batch(there: int) -> int:
    """Return how many children one decision makes or deletes for an owner that has `there`: few at first,
    then twice as many each time. Children not yet made take no memory, and a refused template is refused
    few times.
    """
    return min(max(there, FIRST_BATCH), LARGEST_BATCH)


def with_condition(
    conditions: list[Json], desired: Json, now: datetime, *, stamp: str = "lastProbeTime"
) -> list[Json]:
    """The conditions with `desired` (type, status, reason, message) among them; times move when the status does."""
    at = format_time(now)
    fresh = {**desired, "lastTransitionTime": at, stamp: at}
    result, replaced = [], False
    for condition in conditions:
        if condition.get("type") != desired["type"]:
            result.append(condition)
            continue
        if all(condition.get(key) == value for key, value in desired.items()):
            return conditions
        if condition.get("status") == desired["status"]:
            fresh["lastTransitionTime"] = condition.get("lastTransitionTime", at)
        result.append(fresh)
        replaced = True
    return result if replaced else [*result, fresh]
