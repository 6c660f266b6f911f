"""Cycles of a task; in each, a team may submit a limited number of times."""

from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from steelyard.api.entities.reading import EntityReader
from steelyard.views.fields import cursor
from steelyard.views.view import Query
from steelyard_schema.challenge_task import ChallengeTask, ChallengeTaskSchedule
from steelyard_schema.security import QuotaSelector
from steelyard_schema.team import Team

RESOURCE = "submissions.dyff.io/created"
"""Name of the resource that the limit counts, for `securityContext.ignoreQuotas`."""
EXCEEDED = "RateLimitExceeded"
_PAGE = 200


@dataclass(frozen=True)
class Cycle:
    """One cycle, from `start` (included) to `end` (excluded)."""

    start: datetime
    end: datetime


def find_cycle(schedule: ChallengeTaskSchedule, now: datetime) -> Cycle:
    """Return the cycle that holds `now`; times before the epoch have cycles, too."""
    length = schedule.submissionCycleDuration
    start = schedule.submissionCycleEpoch + (now - schedule.submissionCycleEpoch) // length * length
    return Cycle(start, start + length)


def is_exempt(selectors: list[QuotaSelector], team: Team) -> bool:
    """Return whether the limit of the cycle is among the quotas that an administrator lets the submission ignore."""
    principals = {"*", f"accounts/{team.account}", f"teams/{team.id}"}
    return any(
        quota.principal in principals and quota.resource in {"*", RESOURCE} and quota.flavor in {"*", "Rate"}
        for quota in selectors
    )


async def list_counted(entities: EntityReader, task: ChallengeTask, team: Team, cycle: Cycle) -> list[str]:
    """Return the ids of the team's submissions in the cycle; those beyond the limit do not count.

    A deleted submission counts: otherwise a team could submit without a limit by deleting its submissions.
    """
    filters = {name: (id,) for name, id in (("task", task.id), ("team", team.id))}
    query = Query("Submission", filters, order_by="creationTime", order="descending", limit=_PAGE)
    ids: list[str] = []
    while True:
        page = [orjson.loads(json) for json in await entities.query(query)]
        for content in page:
            if datetime.fromisoformat(content["creationTime"]) < cycle.start:
                return ids
            if content.get("reason") != EXCEEDED:
                ids.append(content["id"])
        if len(page) < _PAGE:
            return ids
        query = replace(query, after=cursor(page[-1], "Submission", query.order_by))
