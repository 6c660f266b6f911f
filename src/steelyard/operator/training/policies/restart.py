"""What is done about replicas that failed or were ended: restart what, and whether it counts; fail; or go on without.

The first that matches decides: the job's rules, then whether it was a disruption, then the restart policy of the
replica type. Of several the earliest comes first, and what its restart starts anew anyway is its consequence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from steelyard.operator.conditions import time_text
from steelyard.operator.training.model import (
    SHELL_SIGNAL,
    UNKNOWN_EXIT,
    Action,
    Memory,
    Place,
    Replica,
    Role,
    Rule,
    Scope,
    TrainingJob,
)
from steelyard.operator.training.observed.pods import Ended
from steelyard.operator.training.policies import back_off
from steelyard.operator.training.policies import failure_patterns as patterns
from steelyard.types import Json

REMEMBERED = 10
"""Failures that stay in the status: the first, and the newest."""
NO_END = Ended(UNKNOWN_EXIT)
"""Of a replica whose container told nothing of its end."""


@dataclass(frozen=True)
class Fall:
    """A replica that failed or was ended, and is not on record yet."""

    place: Place
    attempt: int
    pod: str
    uid: str
    at: datetime
    ended: Ended = NO_END
    disruption: str = ""
    in_place: int = 0
    """How often the kubelet has started it again already; 0: it did not."""


@dataclass(frozen=True)
class Verdict:
    """What a fall leads to. Without a scope the kubelet has done what there is to do."""

    action: Action
    counted: bool = True
    scope: Scope | None = None


@dataclass(frozen=True)
class Decision:
    """What to remember after falls, and what becomes of the job."""

    memory: Memory
    ends: Literal["", "failed", "spent"] = ""
    """Whether the job has failed: by a replica, or by having used up its restarts."""
    fallen: tuple[Place, ...] = ()
    """Who caused that, or the restart."""
    restarted: frozenset[Place] = frozenset()


def judge(fall: Fall, role: Role, rules: Iterable[Rule]) -> Verdict:
    """What one fall leads to by itself."""
    for rule in rules:
        if _matches(rule, fall):
            scope = rule.scope or (None if fall.in_place else role.scope)
            return Verdict(rule.action, rule.counted, scope if rule.action == "Restart" else None)
    if fall.ended.unstartable and not fall.disruption and role.restart != "Always":
        return Verdict("Fail")
    if fall.in_place:
        return Verdict("Restart")
    if fall.disruption:
        return Verdict("Restart", counted=False, scope=role.scope)
    match role.restart:
        case "Always" | "OnFailure":
            return Verdict("Restart", scope=role.scope)
        case "ExitCode" if fall.ended.exit_code >= SHELL_SIGNAL:
            return Verdict("Restart", scope=role.scope)
        case _:
            return Verdict("Fail")


def _matches(rule: Rule, fall: Fall) -> bool:
    ended = fall.ended
    checks = (
        (rule.exit_codes, ended.exit_code in rule.exit_codes),
        (rule.signals, ended.signal in rule.signals),
        (rule.reasons, bool({ended.reason, fall.disruption} & set(rule.reasons))),
        (rule.pattern, bool(rule.pattern) and patterns.found(rule.pattern, ended.message)),
        (rule.roles, fall.place.role in rule.roles),
    )
    return all(holds for given, holds in checks if given)


def decide(job: TrainingJob, falls: Sequence[Fall], memory: Memory, now: datetime) -> Decision:
    """What all falls of one look lead to together."""
    # The replicas are a dictionary of this decision's own, which `_with` writes to: a copy for each of ten thousand
    # that fall at once would hold the loop for many seconds.
    decision = Decision(replace(memory, replicas=dict(memory.replicas)))
    judged = [(fall, judge(fall, job.roles[fall.place.role], job.rules)) for fall in falls]
    for fall, verdict in sorted(
        judged, key=lambda each: (each[0].at, each[1].action == "Fail", each[0].place)
    ):
        if fall.place in decision.restarted:
            consequence = _noted(decision.memory, fall, Verdict("Restart", counted=False), consequence=True)
            decision = replace(decision, memory=consequence)
        elif not decision.ends or (decision.ends, verdict.action) == ("failed", "Fail"):
            decision = _after(job, decision, fall, verdict, now)
    return decision


def _after(job: TrainingJob, so_far: Decision, fall: Fall, verdict: Verdict, now: datetime) -> Decision:
    match verdict.action:
        case "Ignore" if fall.in_place:
            return _counted_in_place(job, so_far, fall, replace(verdict, counted=False))
        case "Restart" if verdict.scope is None:
            return _counted_in_place(job, so_far, fall, verdict)
        case "Restart":
            return _restarted(job, so_far, fall, verdict, now)
        case "Ignore":
            return replace(so_far, memory=_failed(_noted(so_far.memory, fall, verdict), fall))
        case "Fail":
            memory = _failed(_noted(so_far.memory, fall, verdict), fall)
            same = tuple(each for each in so_far.fallen if each.role == fall.place.role)
            return replace(so_far, memory=memory, ends="failed", fallen=(*same, fall.place))


def _counted_in_place(job: TrainingJob, so_far: Decision, fall: Fall, verdict: Verdict) -> Decision:
    """The kubelet was quicker: what it did is counted."""
    memory = _noted(so_far.memory, fall, verdict)
    replica = memory.replicas[fall.place]
    more = fall.in_place - replica.in_place
    replica = replace(replica, restarts=replica.restarts + more, in_place=fall.in_place)
    restarts = memory.restarts + (more if verdict.counted else 0)
    memory = _with(memory, replica)
    if back_off.spent(job, restarts):
        allowed = back_off.limit(job) or 0
        return replace(so_far, memory=replace(memory, restarts=allowed), ends="spent", fallen=(fall.place,))
    return replace(so_far, memory=replace(memory, restarts=restarts))


def _restarted(job: TrainingJob, so_far: Decision, fall: Fall, verdict: Verdict, now: datetime) -> Decision:
    """A new attempt of every replica in the scope; it counts one, however many they are."""
    memory = so_far.memory
    if verdict.counted and back_off.spent(job, memory.restarts + 1):
        memory = _failed(_noted(memory, fall, replace(verdict, action="Fail")), fall)
        return replace(so_far, memory=memory, ends="spent", fallen=(fall.place,))
    memory = _noted(memory, fall, verdict)
    scope = within(job, fall.place, verdict.scope or "Pod") - so_far.restarted
    for place in sorted(scope):
        memory = _with(memory, _again(memory.replicas[place], fall))
    restarts, disruptions = memory.restarts + verdict.counted, memory.disruptions + (not verdict.counted)
    memory = replace(memory, restarts=restarts, disruptions=disruptions)
    memory = replace(memory, restart_at=back_off.restart_at(job, memory, verdict.counted, now))
    return replace(
        so_far, memory=memory, fallen=(*so_far.fallen, fall.place), restarted=so_far.restarted | scope
    )


def within(job: TrainingJob, place: Place, scope: Scope) -> frozenset[Place]:
    """The replicas that start again together with one."""
    match scope:
        case "Job":
            return frozenset(job.places)
        case "ReplicaType":
            return frozenset(each for each in job.places if each.role == place.role)
        case "Pod":
            return frozenset({place})


def _again(replica: Replica, fall: Fall) -> Replica:
    """Its next attempt. Who fell shows how, until it ends again."""
    fell = replica.place == fall.place
    return replace(
        replica,
        attempt=replica.attempt + 1,
        uid="",
        phase="Pending",
        restarts=replica.restarts + 1,
        in_place=0,
        exit_code=fall.ended.exit_code if fell else None,
        reason=_reason(fall) if fell else "",
        node="",
        started=None,
    )


def _failed(memory: Memory, fall: Fall) -> Memory:
    """The replica has failed, and stays so."""
    replica = memory.replicas[fall.place]
    ended = replace(replica, phase="Failed", exit_code=fall.ended.exit_code, reason=_reason(fall))
    return _with(memory, ended)


def _with(memory: Memory, replica: Replica) -> Memory:
    assert isinstance(memory.replicas, dict)
    memory.replicas[replica.place] = replica
    return memory


def _reason(fall: Fall) -> str:
    return fall.disruption or fall.ended.reason


def _noted(memory: Memory, fall: Fall, verdict: Verdict, consequence: bool = False) -> Memory:
    """On record in the status: why, with the last log lines; and whether it followed from an earlier one."""
    entry: Json = {
        "pod": fall.pod,
        "type": fall.place.role,
        "index": fall.place.index,
        "attempt": fall.attempt,
        "uid": fall.uid,
        "exitCode": None if fall.ended.exit_code == UNKNOWN_EXIT else fall.ended.exit_code,
        "signal": fall.ended.signal,
        "reason": _reason(fall),
        "message": fall.ended.message,
        "time": time_text(fall.at),
        "action": verdict.action,
        "counted": verdict.counted,
        **({"disruption": True} if fall.disruption else {}),
        **({"consequence": True} if consequence else {}),
        **({"inPlace": True} if fall.in_place else {}),
    }
    failures = (*memory.failures, {name: value for name, value in entry.items() if value not in (None, "")})
    if len(failures) > REMEMBERED:
        failures = (failures[0], *failures[1 - REMEMBERED :])
    return replace(memory, failures=failures)
