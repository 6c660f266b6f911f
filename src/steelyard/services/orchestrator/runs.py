"""Statuses of runs of pipelines, and of submissions: the orchestrator writes what follows from their workflows.

The leader lets `ObservedRuns` see every claim. An index says which run a workflow belongs to, so that a change of a
workflow costs the reading of its own run alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

from steelyard.accounts.claims import Claim
from steelyard.broker.log import STATE, Log, Message
from steelyard.services.status_commands import Status as NewStatus
from steelyard.services.status_commands import command_id, status_command
from steelyard_schema.answers import Status
from steelyard_schema.entities import parse_stored
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.run_status import status_of_run, status_of_submission
from steelyard_schema.status import TERMINAL
from steelyard_schema.submission import Submission


@dataclass(frozen=True)
class Follower:
    """A run, or a submission, that has not ended, with the ids of what it follows: by nodes, or its run."""

    claim: Claim
    nodes: Mapping[str, str]


@dataclass
class ObservedRuns:
    """Runs and submissions that have not ended."""

    _followers: dict[str, Follower] = field(default_factory=dict)
    _by_followed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _changed: set[str] = field(default_factory=set)

    def update(self, id: str, claim: Claim | None) -> bool:
        """Take the newest claim of an entity. Return whether the status of a run or a submission may be another now."""
        self._drop(id)
        if claim is not None and claim.status not in TERMINAL and (follower := _follower(claim)):
            self._followers[id] = follower
            for followed in follower.nodes.values():
                self._by_followed[followed].add(id)
            self._changed.add(id)
        self._changed |= self._by_followed.get(id, set())
        return bool(self._changed)

    def mark_all_changed(self) -> None:
        """Let the next pass decide about every run and submission."""
        self._changed |= self._followers.keys()

    def take_changed(self) -> list[Follower]:
        """Return those about which something has changed, once."""
        changed, self._changed = self._changed, set()
        return [self._followers[id] for id in changed if id in self._followers]

    def _drop(self, id: str) -> None:
        self._changed.discard(id)
        follower = self._followers.pop(id, None)
        for followed in follower.nodes.values() if follower else ():
            self._by_followed[followed].discard(id)
            # Empty sets of what is no longer followed would grow without end.
            if not self._by_followed[followed]:
                del self._by_followed[followed]


def list_followed(followers: Iterable[Follower]) -> set[str]:
    """Return the ids of everything that these follow."""
    return {id for follower in followers for id in follower.nodes.values()}


async def find_forgotten(log: Log, ids: Set[str]) -> frozenset[str]:
    """Return those of the ids that the log knows as forgotten; the others are not there yet."""
    latest = await log.find_latest(STATE, ids)
    return frozenset(
        id for id, record in latest.items() if record.value is None or "forgotten" in record.headers
    )


def status_change(
    follower: Follower, known: Mapping[str, Claim], forgotten: frozenset[str], now: datetime
) -> Message | None:
    """Return the command that gives a run or a submission the status that it should have; None if it has it.

    `known` are the claims of what it follows, by id. One that is neither known nor `forgotten` is not there yet:
    records of different partitions have no order among each other.
    """
    claim = follower.claim
    statuses = {node: _status(id, known, forgotten) for node, id in follower.nodes.items()}
    if claim.kind == "Submission":
        status = status_of_submission(next(iter(statuses.values())))
    else:
        status = status_of_run({node: followed.status for node, followed in statuses.items()})
    new = (status.status, status.reason, status.message)
    if new == (claim.status, claim.reason, claim.message):
        return None
    # The same for the same change: a leader that repeats what its predecessor has sent changes nothing.
    command = command_id("run", claim.id, *(str(number) for number in claim.position), *map(str, new))
    return status_command(
        claim.id, claim.kind, NewStatus(*new), source="orchestrator", time=now, command=command
    )


def _status(id: str, known: Mapping[str, Claim], forgotten: frozenset[str]) -> Status:
    claim = known.get(id)
    if claim is None:
        return Status(status="Deleted" if id in forgotten else "Created")
    return Status(status=claim.status, reason=claim.reason, message=claim.message)


def _follower(claim: Claim) -> Follower | None:
    """Return what a claim follows; None for one of another kind."""
    if claim.kind not in {"PipelineRun", "Submission"}:
        return None
    entity = parse_stored(claim.json)
    if isinstance(entity, PipelineRun):
        return Follower(claim, {node: workflow.id for node, workflow in entity.workflows.items()})
    assert isinstance(entity, Submission)
    return Follower(claim, {"run": entity.pipelineRun})
