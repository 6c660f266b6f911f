"""`successPolicy` of a DLJob: which roles count, and how many of their replicas have to succeed."""

from collections.abc import Callable, Sequence
from math import ceil

from steelyard.operator.training.frameworks.framework import Standing
from steelyard.operator.training.model import Tally, TrainingJob
from steelyard.types import Json


def rule(policy: Json) -> Callable[[TrainingJob, Tally], Standing]:
    """`{roles, count | percent | all}`: without roles all of them, without a number all replicas."""

    def standing(job: TrainingJob, tally: Tally) -> Standing:
        roles = [role for role in policy.get("roles") or job.roles if role in job.roles]
        running = tally.any_active(roles)
        if not roles:
            return Standing(running, succeeded=False)
        return Standing(running, _done(policy, job, roles, tally))

    return standing


def _done(policy: Json, job: TrainingJob, roles: Sequence[str], tally: Tally) -> bool:
    """A policy of nothing is never met: a job whose roles have no replicas has not succeeded."""
    total = sum(job.roles[role].count for role in roles)
    wanted = total
    if policy.get("count") is not None:
        wanted = int(policy["count"])
    elif policy.get("percent") is not None:
        wanted = ceil(total * policy["percent"] / 100)
    return sum(tally.of(role).succeeded for role in roles) >= max(1, wanted)
