"""The status of a resource: always with conditions of every type; a terminal condition never changes again.

`status.status` and `status.reason` are copies for people; no decision reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_status, true_condition
from steelyard_kube.times import format_time, parse_optional_time, parse_time
from steelyard_schema.resources import RESOURCES

State = Literal["progressing", "ready", "complete", "failed", "expired"]


@dataclass(frozen=True)
class Attempts:
    """Attempts of one step: the number of the last one, the failures that count, the uid of the last Job that was
    seen, and when the first attempt began.
    """

    number: int = 0
    counted: int = 0
    uid: str = ""
    started: datetime | None = None


@dataclass(frozen=True)
class History:
    """Past of a resource, as the operator writes it into the status and reads it again."""

    attempts: Mapping[str, Attempts]
    milestones: tuple[str, ...] = ()
    started: datetime | None = None

    def with_milestone(self, milestone: str) -> "History":
        return replace(self, milestones=(*self.milestones, milestone))

    def with_attempts(self, step: str, attempts: Attempts) -> "History":
        return replace(self, attempts={**self.attempts, step: attempts})


@dataclass(frozen=True)
class Phase:
    """State of a workflow, with its reason in one word and in a sentence."""

    state: State
    reason: str
    message: str = ""


def read_history(resource: Json) -> History:
    """Read the history that earlier reconciliations wrote into the status."""
    status = read_status(resource)
    attempts = {
        step: Attempts(
            entry["number"], entry["counted"], entry["uid"], parse_optional_time(entry.get("firstStart"))
        )
        for step, entry in mapping(status, "attempts").items()
    }
    return History(
        attempts, tuple(sequence(status, "milestones")), parse_optional_time(status.get("firstStart"))
    )


def read_finish_time(resource: Json) -> datetime | None:
    finished = true_condition(resource, "Finished")
    return parse_time(finished["lastTransitionTime"]) if finished else None


def fail(reason: str, message: str) -> Phase:
    return Phase("failed", reason, message)


def make_status(
    resource: Json, phase: Phase, history: History, now: datetime, *, ready_replicas: int | None = None
) -> Json:
    """Make the whole status. A resource that has finished keeps the status that it has."""
    before = read_status(resource)
    if true_condition(resource, "Finished"):
        return dict(before)
    kind = RESOURCES[resource["kind"]]
    generation = resource["metadata"].get("generation", 1)
    known = {condition["type"]: condition for condition in sequence(before, "conditions")}
    status: Json = {
        "status": _entity_status(resource["kind"], phase),
        "reason": phase.reason,
        "observedGeneration": generation,
        "conditions": [
            _condition(known.get(type), type, _holds(type, phase, resource["kind"]), phase, generation, now)
            for type in kind.conditions
        ],
        "milestones": list(history.milestones),
        "attempts": {step: _attempts_json(attempts) for step, attempts in sorted(history.attempts.items())},
    }
    if history.started:
        status["firstStart"] = format_time(history.started)
    if ready_replicas is not None:
        status["readyReplicas"] = ready_replicas
    return status


def _attempts_json(attempts: Attempts) -> Json:
    entry: Json = {"number": attempts.number, "counted": attempts.counted, "uid": attempts.uid}
    return entry | ({"firstStart": format_time(attempts.started)} if attempts.started else {})


def _condition(
    before: Json | None, type: str, holds: bool, phase: Phase, generation: int, now: datetime
) -> Json:
    word = "True" if holds else "False"
    unchanged = before is not None and before["status"] == word
    return {
        "type": type,
        "status": word,
        "reason": phase.reason,
        "message": phase.message,
        "lastTransitionTime": before["lastTransitionTime"] if before and unchanged else format_time(now),
        "observedGeneration": generation,
    }


def _holds(type: str, phase: Phase, kind: str) -> bool:
    """Return whether a condition of a type is True in a phase of a resource of this kind."""
    match type:
        case "Progressing":
            return phase.state == "progressing"
        case "Finished":
            return phase.state in {"complete", "failed", "expired"} or (
                phase.state == "ready" and kind != "InferenceSession"
            )
        case _:
            return phase.state == type.lower()


def _entity_status(kind: str, phase: Phase) -> str:
    match phase.state:
        case "complete":
            return "Complete"
        case "ready" if kind != "InferenceSession":
            return "Ready"
        case "expired":
            return "Terminated"
        case "failed":
            return "Failed" if kind in {"Analysis", "Evaluation", "Report", "Audit"} else "Error"
        case _:
            return "Admitted"
