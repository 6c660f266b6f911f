"""Dependencies that an entity waits for before it may run, and obstacles that will never go away.

Pure. The orchestrator calls it for each entity that is Created, whenever something that it depends on has changed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.accounts.claims import Claim
from steelyard.services.orchestrator.manifest import Unresolvable, check
from steelyard_schema.base import DyffEntity
from steelyard_schema.dependencies import Dependency, dependencies
from steelyard_schema.status import NEVER_RAN, SUCCESS, TERMINAL

NAME_LIMIT = 100
"""Characters of a name within a sentence."""


@dataclass(frozen=True)
class Admit:
    """The entity may run now."""


@dataclass(frozen=True)
class Wait:
    """The entity stays Created; `blocked` are ids of the entities that it waits for."""

    reason: str
    message: str
    blocked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fail:
    """The entity will never run."""

    status: str
    reason: str
    message: str


Decision = Admit | Wait | Fail

_REASONS = {
    ("Dataset", "DataSource"): ("WaitingForDataSource", "DataSourceMissing"),
    ("InferenceService", "Model"): ("WaitingForModel", "NoSuchModel"),
    ("Report", "Evaluation"): ("WaitingForEvaluation", "NoSuchEvaluation"),
}
"""Reasons by kind and kind of the dependency: while the dependency is not ready, and after it was deleted."""


@dataclass(frozen=True)
class Waiter:
    """A claim that is not admitted, with its entity's dependencies and a fault of the entity, if it has one."""

    claim: Claim
    needs: tuple[Dependency, ...]
    fault: Fail | None = None


def make_waiter(claim: Claim, entity: DyffEntity) -> Waiter:
    """Return the waiter for an entity that is Created."""
    try:
        check(entity)
    except Unresolvable as error:
        fault = Fail(NEVER_RAN, error.reason, error.message)
        return Waiter(claim, dependencies(entity), fault)
    return Waiter(claim, dependencies(entity))


def obstacle(waiter: Waiter, known: Mapping[str, Claim]) -> Wait | Fail | None:
    """Return why the entity cannot run, quotas apart; None if it can. `known` are claims of its dependencies by id."""
    if waiter.fault:
        return waiter.fault
    # A dependency that is not known may still come: records of different partitions have no order among each other.
    lacking = [need for need in waiter.needs if need.id not in known or known[need.id].status not in SUCCESS]
    for need in lacking:
        if need.id in known and known[need.id].status in TERMINAL:
            return _fail(waiter.claim.kind, need, known[need.id])
    return _waiting(waiter.claim.kind, lacking, known) if lacking else None


def _fail(kind: str, dependency: Dependency, claim: Claim) -> Fail:
    name = display_name(dependency, claim)
    match claim.status:
        case "Deleted":
            _, reason = _REASONS.get((kind, dependency.kind), ("", "FailedDependency"))
            return Fail(NEVER_RAN, reason, f"{name} was deleted")
        case "Terminated":
            return Fail(NEVER_RAN, "FailedDependency", f"{name} was terminated")
        case _:
            why = ": ".join(part for part in (claim.reason, claim.message) if part)
            return Fail(NEVER_RAN, "FailedDependency", f"{name} failed: {why}".rstrip(": "))


def _waiting(kind: str, lacking: list[Dependency], known: Mapping[str, Claim]) -> Wait:
    first = lacking[0]
    reason, _ = _REASONS.get((kind, first.kind), ("UnsatisfiedDependency", ""))
    message = f"waiting for {display_name(first, known.get(first.id))}"
    if first.id not in known:
        message += ", which is not there yet"
    elif known[first.id].status == "WaitingForUpload":
        message += ", whose upload is not finalized"
    if others := len(lacking) - 1:
        message += f"; and for {others} more"
    return Wait(reason, message, frozenset(need.id for need in lacking))


def display_name(dependency: Dependency, claim: Claim | None) -> str:
    """Return kind and name of a dependency, or kind and id if it has no name."""
    name = json.loads(claim.json).get("name") if claim else None
    return f"{dependency.kind} {name[:NAME_LIMIT] if name else dependency.id}"
