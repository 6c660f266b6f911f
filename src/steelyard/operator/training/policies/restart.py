"""Restart policy: what happens when replicas fail or are ended (restart which, count it or not, fail, or go
on).

The first that applies decides: the job's rules, then whether it was a disruption, then the restart policy of the
replica type. Of several failures the earliest comes first; a failure of a replica that it restarts anyway is its
consequence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from steelyard.operator.training.model import (
    SHELL_SIGNAL,
    UNKNOWN_EXIT,
    Action,
    JobStatus,
    Replica,
    ReplicaId,
    Role,
    Rule,
    Scope,
    TrainingJob,
)
from steelyard.operator.training.observed.pods import Termination
from steelyard.operator.training.policies import back_off, failure_patterns
from steelyard_common.types import Json
from steelyard_kube.times import format_time

MAX_FAILURES = 10
"""Number of failures that stay in the status: the first, and the newest."""
UNKNOWN_END = Termination(UNKNOWN_EXIT)
"""End of a container that left no termination."""


@dataclass(frozen=True)
class ReplicaFailure:
    """A replica that failed or was ended, and is not on record yet."""

    replica_id: ReplicaId
    attempt: int
    pod: str
    uid: str
    at: datetime
    termination: Termination = UNKNOWN_END
    disruption: str = ""
    in_place: int = 0
    """Number of restarts by the kubelet so far; 0 if it made none."""

    @property
    def reason(self) -> str:
        return self.disruption or self.termination.reason


@dataclass(frozen=True)
class FailureResponse:
    """Reaction of the operator to one failure. Without a scope, the kubelet has restarted the container
    already.
    """

    action: Action
    counted: bool = True
    scope: Scope | None = None


@dataclass(frozen=True)
class RestartDecision:
    """New status after failures, and what they mean for the job."""

    status: JobStatus
    ends: Literal["", "failed", "spent"] = ""
    """Cause of the job's failure, if it has failed: a failed replica, or too many restarts."""
    causes: tuple[ReplicaId, ...] = ()
    """Replicas that caused the end, or the restart."""
    restarted: frozenset[ReplicaId] = frozenset()


def response_to(failure: ReplicaFailure, role: Role, rules: Iterable[Rule]) -> FailureResponse:
    """Choose what to do about one failure by itself."""
    for rule in rules:
        if _matches(rule, failure):
            scope = rule.scope or _scope(failure, role)
            return FailureResponse(rule.action, rule.counted, scope if rule.action == "Restart" else None)
    # A program that does not exist fails each attempt alike; a disruption says nothing about the program.
    if failure.termination.unstartable and not failure.disruption and role.restart != "Always":
        return FailureResponse("Fail")
    if failure.in_place:
        return FailureResponse("Restart", scope=_scope(failure, role))
    if failure.disruption:
        return FailureResponse("Restart", counted=False, scope=role.scope)
    match role.restart:
        case "Always" | "OnFailure":
            return FailureResponse("Restart", scope=role.scope)
        # v1's contract: 128 and more mean a signal, which another attempt may not meet; 1 to 127 are the program's own.
        case "ExitCode" if failure.termination.exit_code >= SHELL_SIGNAL:
            return FailureResponse("Restart", scope=role.scope)
        case _:
            return FailureResponse("Fail")


def _scope(failure: ReplicaFailure, role: Role) -> Scope | None:
    """Return what the operator restarts: nothing, if the kubelet has restarted all that is to start again."""
    return None if failure.in_place and role.scope == "Pod" else role.scope


def _matches(rule: Rule, failure: ReplicaFailure) -> bool:
    termination = failure.termination
    checks = (
        (rule.exit_codes, termination.exit_code in rule.exit_codes),
        (rule.signals, termination.signal in rule.signals),
        (rule.reasons, bool({termination.reason, failure.disruption} & set(rule.reasons))),
        (rule.pattern, bool(rule.pattern) and failure_patterns.matches(rule.pattern, termination.message)),
        (rule.roles, failure.replica_id.role in rule.roles),
    )
    return all(holds for criterion, holds in checks if criterion)


def decide(
    job: TrainingJob, failures: Sequence[ReplicaFailure], status: JobStatus, now: datetime
) -> RestartDecision:
    """Decide about all failures of one reconciliation together."""
    # The replicas are a dictionary of this decision's own, which `_with_replica` writes to: a copy for each of ten
    # thousand that fail at once would hold the event loop for many seconds.
    decision = RestartDecision(replace(status, replicas=dict(status.replicas)))
    responses = [
        (failure, response_to(failure, job.roles[failure.replica_id.role], job.rules)) for failure in failures
    ]
    # The earliest failure is taken for the cause; at the same time, a restart comes before an end. The order is total:
    # an operator that takes over must decide alike.
    responses.sort(key=lambda pair: (pair[0].at, pair[1].action == "Fail", pair[0].replica_id))
    for failure, response in responses:
        # Peers of a failed replica fail as well, when their collective operation breaks: that is no failure of their
        # own, and uses up no restart.
        if failure.replica_id in decision.restarted:
            consequence = FailureResponse("Restart", counted=False)
            recorded = _record(decision.status, failure, consequence, consequence=True)
            decision = replace(decision, status=recorded)
        # After the end of the job only further permanent failures are recorded, so that the message names all of them.
        elif not decision.ends or (decision.ends, response.action) == ("failed", "Fail"):
            decision = _apply(job, decision, failure, response, now)
    return decision


def _apply(
    job: TrainingJob,
    decision: RestartDecision,
    failure: ReplicaFailure,
    response: FailureResponse,
    now: datetime,
) -> RestartDecision:
    match response.action:
        # The kubelet has restarted the container whatever the rule says: it is counted for the replica, not for the
        # limit.
        case "Ignore" if failure.in_place:
            return _count_in_place(job, decision, failure, replace(response, counted=False))
        case "Restart" if response.scope is None:
            return _count_in_place(job, decision, failure, response)
        case "Restart":
            return _restart(job, decision, failure, response, now)
        case "Ignore":
            return replace(decision, status=_fail(decision.status, failure, response))
        case "Fail":
            same = (cause for cause in decision.causes if cause.role == failure.replica_id.role)
            return replace(
                decision,
                status=_fail(decision.status, failure, response),
                ends="failed",
                causes=(*same, failure.replica_id),
            )


def _count_in_place(
    job: TrainingJob, decision: RestartDecision, failure: ReplicaFailure, response: FailureResponse
) -> RestartDecision:
    """Count restarts that the kubelet has made before the operator could."""
    status = _record(decision.status, failure, response)
    replica = status.replicas[failure.replica_id]
    # The kubelet counts restarts, and a slow operator sees only the newest number: it may stand for several at once.
    more = failure.in_place - replica.in_place
    replica = replace(replica, restarts=replica.restarts + more, in_place=failure.in_place)
    restarts = status.restarts + (more if response.counted else 0)
    status = _with_replica(status, replica)
    if back_off.is_reached(job, restarts):
        status = replace(status, restarts=_count_allowed(job, restarts))
        return replace(decision, status=status, ends="spent", causes=(failure.replica_id,))
    return replace(decision, status=replace(status, restarts=restarts))


def _restart(
    job: TrainingJob,
    decision: RestartDecision,
    failure: ReplicaFailure,
    response: FailureResponse,
    now: datetime,
) -> RestartDecision:
    """Begin a new attempt of every replica in the scope. It counts once, however many replicas there are."""
    status = decision.status
    # The restart is not begun, so the replicas keep their attempts: Pods of a job that has ended are the clean-up's.
    is_last = back_off.is_reached if failure.in_place else back_off.is_spent
    if response.counted and is_last(job, status.restarts + 1):
        status = _fail(status, failure, replace(response, action="Fail"))
        status = replace(status, restarts=_count_allowed(job, status.restarts + 1))
        return replace(decision, status=status, ends="spent", causes=(failure.replica_id,))
    status = _record(status, failure, response)
    # Replicas that an earlier failure of the same moment restarts get one new attempt, not two.
    scope = replicas_in_scope(job, failure.replica_id, response.scope or "Pod") - decision.restarted
    for replica_id in sorted(scope):
        status = _with_replica(status, _next_attempt(status.replicas[replica_id], failure))
    restarts, disruptions = status.restarts + response.counted, status.disruptions + (not response.counted)
    status = replace(status, restarts=restarts, disruptions=disruptions)
    status = replace(status, restart_at=back_off.restart_at(job, status, response.counted, now))
    causes = (*decision.causes, failure.replica_id)
    return replace(decision, status=status, causes=causes, restarted=decision.restarted | scope)


def _count_allowed(job: TrainingJob, restarts: int) -> int:
    """Return the number of restarts for the status: the kubelet may have gone beyond the limit before anybody could
    stop it, and the status never says more than is allowed.
    """
    return min(restarts, back_off.limit(job) or 0)


def replicas_in_scope(job: TrainingJob, replica_id: ReplicaId, scope: Scope) -> frozenset[ReplicaId]:
    """Return the replicas that restart together with one."""
    match scope:
        case "Job":
            return frozenset(job.replica_ids)
        case "ReplicaType":
            return frozenset(other for other in job.replica_ids if other.role == replica_id.role)
        case "Pod":
            return frozenset({replica_id})


def _next_attempt(replica: Replica, failure: ReplicaFailure) -> Replica:
    """Begin the next attempt. The replica that failed keeps exit code and reason until it ends again."""
    failed = replica.replica_id == failure.replica_id
    return replace(
        replica,
        attempt=replica.attempt + 1,
        uid="",
        phase="Pending",
        restarts=replica.restarts + 1,
        in_place=0,
        exit_code=failure.termination.exit_code if failed else None,
        reason=failure.reason if failed else "",
        node="",
        started=None,
    )


def _fail(status: JobStatus, failure: ReplicaFailure, response: FailureResponse) -> JobStatus:
    """Put a failure on record, and let its replica stay failed."""
    status = _record(status, failure, response)
    replica = status.replicas[failure.replica_id]
    exit_code = failure.termination.exit_code
    return _with_replica(status, replace(replica, phase="Failed", exit_code=exit_code, reason=failure.reason))


def _with_replica(status: JobStatus, replica: Replica) -> JobStatus:
    assert isinstance(status.replicas, dict)
    status.replicas[replica.replica_id] = replica
    return status


def _record(
    status: JobStatus, failure: ReplicaFailure, response: FailureResponse, consequence: bool = False
) -> JobStatus:
    """Put a failure on record, with its last log lines, and whether it is the consequence of an earlier one."""
    exit_code = failure.termination.exit_code
    entry: Json = {
        "pod": failure.pod,
        "type": failure.replica_id.role,
        "index": failure.replica_id.index,
        "attempt": failure.attempt,
        "uid": failure.uid,
        # An unknown exit code is left out; 0 or -1 would be taken for one that a container had.
        "exitCode": None if exit_code == UNKNOWN_EXIT else exit_code,
        "signal": failure.termination.signal,
        "reason": failure.reason,
        "message": failure.termination.message,
        "time": format_time(failure.at),
        "action": response.action,
        "counted": response.counted,
        **({"disruption": True} if failure.disruption else {}),
        **({"consequence": True} if consequence else {}),
        **({"inPlace": True} if failure.in_place else {}),
    }
    failures = (*status.failures, {name: value for name, value in entry.items() if value not in (None, "")})
    if len(failures) > MAX_FAILURES:
        # etcd bounds the size of an object, and the first failure most often shows the cause.
        failures = (failures[0], *failures[1 - MAX_FAILURES :])
    return replace(status, failures=failures)
