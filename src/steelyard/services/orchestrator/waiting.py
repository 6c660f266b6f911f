"""What an entity waits for before it may run, in a sentence; and what will never come.

Pure. The orchestrator asks it about each entity that is Created, whenever something that it depends on has changed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.accounts.database import Claim
from steelyard.schema.base import DyffEntity
from steelyard.schema.dependencies import Dependency, dependencies
from steelyard.schema.status import SUCCESS, TERMINAL, failure_status
from steelyard.services.orchestrator.manifest import Unresolvable, check

NAME_LIMIT = 100
"""Characters of a name within a sentence."""


@dataclass(frozen=True)
class Admit:
    """It may run now."""


@dataclass(frozen=True)
class Wait:
    """It stays Created; `blocked` are ids of what it waits for."""

    reason: str
    message: str
    blocked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fail:
    """It will never run."""

    status: str
    reason: str
    message: str


Decision = Admit | Wait | Fail

_WORDS = {
    ("InferenceService", "Model"): ("WaitingForModel", "NoSuchModel"),
    ("Report", "Evaluation"): ("WaitingForEvaluation", "NoSuchEvaluation"),
}
"""By kind and the kind that it waits for: the reasons while it is not there yet, and when it is there no more."""


@dataclass(frozen=True)
class Waiter:
    """A claim that is not admitted, with what its entity says about it."""

    claim: Claim
    needs: tuple[Dependency, ...]
    fault: Fail | None = None


def waiter_of(claim: Claim, entity: DyffEntity) -> Waiter:
    try:
        check(entity)
    except Unresolvable as fault:
        return Waiter(
            claim, dependencies(entity), Fail(failure_status(claim.kind), fault.reason, fault.message)
        )
    return Waiter(claim, dependencies(entity))


def in_the_way(waiter: Waiter, known: Mapping[str, Claim]) -> Wait | Fail | None:
    """Why it cannot run, quotas apart. An entity that is not known may still come: that is no failure."""
    if waiter.fault:
        return waiter.fault
    lacking = [each for each in waiter.needs if _status(each, known) not in SUCCESS]
    for each in lacking:
        if each.id in known and known[each.id].status in TERMINAL:
            return _failed(waiter.claim.kind, each, known[each.id])
    return _waiting(waiter.claim.kind, lacking, known) if lacking else None


def _status(dependency: Dependency, known: Mapping[str, Claim]) -> str | None:
    return known[dependency.id].status if dependency.id in known else None


def _failed(kind: str, dependency: Dependency, claim: Claim) -> Fail:
    name = named(dependency, claim)
    match claim.status:
        case "Deleted":
            _, reason = _WORDS.get((kind, dependency.kind), ("", "FailedDependency"))
            return Fail(failure_status(kind), reason, f"{name} was deleted")
        case "Terminated":
            return Fail(failure_status(kind), "FailedDependency", f"{name} was terminated")
        case _:
            why = ": ".join(part for part in (claim.reason, claim.message) if part)
            return Fail(failure_status(kind), "FailedDependency", f"{name} failed: {why}".rstrip(": "))


def _waiting(kind: str, lacking: list[Dependency], known: Mapping[str, Claim]) -> Wait:
    first = lacking[0]
    reason, _ = _WORDS.get((kind, first.kind), ("UnsatisfiedDependency", ""))
    message = f"waiting for {named(first, known.get(first.id))}"
    if first.id not in known:
        message += ", which is not there yet"
    elif known[first.id].status == "WaitingForUpload":
        message += ", whose upload is not finalized"
    if others := len(lacking) - 1:
        message += f"; and for {others} more"
    return Wait(reason, message, frozenset(each.id for each in lacking))


def named(dependency: Dependency, claim: Claim | None) -> str:
    """Its kind and name, or its id where it has no name."""
    name = json.loads(claim.json).get("name") if claim else None
    return f"{dependency.kind} {name[:NAME_LIMIT] if name else dependency.id}"
