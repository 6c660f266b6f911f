"""The status of a resource: conditions of every type, always; a terminal one sticks.

`status.status` and `status.reason` are copies for people; no decision reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from steelyard.schema.resources import RESOURCES
from steelyard.types import Json

State = Literal["progressing", "ready", "complete", "failed", "expired"]


@dataclass(frozen=True)
class Attempts:
    """Of one step: the number of the last attempt, the failures that count, the last Job that was seen, and when
    the first attempt began.
    """

    number: int = 0
    counted: int = 0
    uid: str = ""
    started: datetime | None = None


@dataclass(frozen=True)
class Memory:
    """What the operator remembers in the status, and reads again."""

    attempts: Mapping[str, Attempts]
    milestones: tuple[str, ...] = ()
    started: datetime | None = None

    def reached(self, milestone: str) -> "Memory":
        return replace(self, milestones=(*self.milestones, milestone))

    def with_attempts(self, step: str, attempts: Attempts) -> "Memory":
        return replace(self, attempts={**self.attempts, step: attempts})


@dataclass(frozen=True)
class Phase:
    """Where the workflow stands, why in one word, and why in a sentence."""

    state: State
    reason: str
    message: str = ""


def time_text(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """A time without a zone is UTC's."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def memory_of(resource: Json) -> Memory:
    status = resource.get("status") or {}
    attempts = {name: _attempts(each) for name, each in (status.get("attempts") or {}).items()}
    return Memory(attempts, tuple(status.get("milestones") or ()), _time(status.get("firstStart")))


def _attempts(written: Json) -> Attempts:
    return Attempts(written["number"], written["counted"], written["uid"], _time(written.get("firstStart")))


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def condition(resource: Json, kind: str) -> Json | None:
    """The condition of a type, if it is True."""
    conditions = (resource.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)


def finished_since(resource: Json) -> datetime | None:
    found = condition(resource, "Finished")
    return parse_time(found["lastTransitionTime"]) if found else None


def failed(reason: str, message: str) -> Phase:
    return Phase("failed", reason, message)


def status_of(
    resource: Json, phase: Phase, memory: Memory, now: datetime, *, ready_replicas: int | None = None
) -> Json:
    """The whole status. Once the resource has finished, the one that it has."""
    before = resource.get("status") or {}
    if condition(resource, "Finished"):
        return dict(before)
    kind = RESOURCES[resource["kind"]]
    generation = resource["metadata"].get("generation", 1)
    known = {each["type"]: each for each in before.get("conditions") or ()}
    status: Json = {
        "status": _entity_status(resource["kind"], phase),
        "reason": phase.reason,
        "observedGeneration": generation,
        "conditions": [
            _condition(known.get(each), each, _holds(each, phase, resource["kind"]), phase, generation, now)
            for each in kind.conditions
        ],
        "milestones": list(memory.milestones),
        "attempts": {name: _written(each) for name, each in sorted(memory.attempts.items())},
    }
    if memory.started:
        status["firstStart"] = time_text(memory.started)
    if ready_replicas is not None:
        status["readyReplicas"] = ready_replicas
    return status


def _written(attempts: Attempts) -> Json:
    written: Json = {"number": attempts.number, "counted": attempts.counted, "uid": attempts.uid}
    return written | ({"firstStart": time_text(attempts.started)} if attempts.started else {})


def _condition(
    before: Json | None, kind: str, holds: bool, phase: Phase, generation: int, now: datetime
) -> Json:
    word = "True" if holds else "False"
    unchanged = before is not None and before["status"] == word
    return {
        "type": kind,
        "status": word,
        "reason": phase.reason,
        "message": phase.message,
        "lastTransitionTime": before["lastTransitionTime"] if before and unchanged else time_text(now),
        "observedGeneration": generation,
    }


def _holds(kind: str, phase: Phase, resource_kind: str) -> bool:
    ends_when_ready = resource_kind in {"Model", "InferenceService"}
    match kind:
        case "Progressing":
            return phase.state == "progressing"
        case "Finished":
            return phase.state in {"complete", "failed", "expired"} or (
                phase.state == "ready" and ends_when_ready
            )
        case _:
            return phase.state == kind.lower()


def _entity_status(kind: str, phase: Phase) -> str:
    match phase.state:
        case "complete":
            return "Complete"
        case "ready" if kind != "InferenceSession":
            return "Ready"
        case "expired":
            return "Terminated"
        case "failed":
            return "Failed" if kind in {"Evaluation", "Report", "Audit"} else "Error"
        case _:
            return "Admitted"
