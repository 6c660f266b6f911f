"""Success policy of a DLJob: which roles count, and how many of their replicas have to succeed."""

from collections.abc import Callable, Sequence
from math import ceil

from steelyard.operator.training.frameworks.framework import RuleResult
from steelyard.operator.training.model import Tally, TrainingJob
from steelyard_common.types import Json


def rule(policy: Json) -> Callable[[TrainingJob, Tally], RuleResult]:
    """Make a success rule from `{roles, count | percent | all}`.

    Without roles, all roles count; without a number, all replicas have to succeed.
    """

    def success_rule(job: TrainingJob, tally: Tally) -> RuleResult:
        roles = [role for role in policy.get("roles") or job.roles if role in job.roles]
        running = tally.any_active(roles)
        if not roles:
            return RuleResult(running, succeeded=False)
        return RuleResult(running, _is_met(policy, job, roles, tally))

    return success_rule


def _is_met(policy: Json, job: TrainingJob, roles: Sequence[str], tally: Tally) -> bool:
    """Return whether enough replicas have succeeded; never for roles without replicas."""
    total = sum(job.roles[role].count for role in roles)
    required = total
    if policy.get("count") is not None:
        required = int(policy["count"])
    elif policy.get("percent") is not None:
        required = ceil(total * policy["percent"] / 100)
    return sum(tally.counts_for(role).succeeded for role in roles) >= max(1, required)
