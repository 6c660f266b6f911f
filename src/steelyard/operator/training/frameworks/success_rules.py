"""Rules of success: who of a job decides that it runs, and that it has succeeded. Frameworks are made of them."""

from collections.abc import Callable, Sequence

from steelyard.operator.training.frameworks.framework import RuleResult
from steelyard.operator.training.model import ReplicaId, Tally, TrainingJob

Rule = Callable[[TrainingJob, Tally], RuleResult]


def led_by(leaders: Sequence[str], otherwise: Rule) -> Rule:
    """The first of `leaders` that the job has decides alone; without any of them, `otherwise`."""

    def rule(job: TrainingJob, tally: Tally) -> RuleResult:
        leader = next((name for name in leaders if name in job.roles), None)
        return otherwise(job, tally) if leader is None else _apply(leader, job, tally)

    return rule


def require_all(role: str) -> Rule:
    """Every replica of one type has to succeed; it runs when any is active."""
    return lambda job, tally: _apply(role, job, tally)


def everyone(job: TrainingJob, tally: Tally) -> RuleResult:
    """Every replica of every type has to succeed."""
    every = [_apply(name, job, tally) for name in job.roles]
    return RuleResult(any(result.running for result in every), all(result.succeeded for result in every))


def require_any(role: str) -> Rule:
    """One replica of the type is enough."""
    return lambda job, tally: RuleResult(
        tally.counts_for(role).active > 0, tally.counts_for(role).succeeded > 0
    )


def require_first(role: str) -> Rule:
    """Replica 0 of the type is enough, and all of them are, too."""

    def rule(job: TrainingJob, tally: Tally) -> RuleResult:
        every = _apply(role, job, tally)
        return RuleResult(every.running, every.succeeded or ReplicaId(role, 0) in tally.succeeded)

    return rule


def _apply(role: str, job: TrainingJob, tally: Tally) -> RuleResult:
    count = job.roles[role].count if role in job.roles else 0
    counts = tally.counts_for(role)
    return RuleResult(counts.active > 0, 0 < count <= counts.succeeded)
