"""The collections `client.challenges`, `client.teams` and `client.submissions`.

`async_challenges.py` has the same methods, awaited.
"""

from collections.abc import Mapping
from typing import Any

from steelyard.client.calls import Request
from steelyard.client.challenge_calls import ChallengeCalls, SubmissionCalls, TeamCalls
from steelyard.client.collections import Collection
from steelyard.client.transport import Transport
from steelyard_schema.answers import ArtifactURL
from steelyard_schema.challenge import Challenge
from steelyard_schema.challenge_task import ChallengeTask
from steelyard_schema.submission import Submission
from steelyard_schema.team import Team

Patch = Mapping[str, Any]


class Challenges(Collection[Challenge]):
    """Tasks that teams compete in."""

    _calls: ChallengeCalls

    def __init__(self, calls: ChallengeCalls, transport: Transport) -> None:
        super().__init__(calls, transport)

    def create_task(
        self, id: str, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> ChallengeTask:
        """Add a task: `create_task(id, account=…, name=…, assessment=<pipeline id>, rules={…})`.

        Raises Invalid, which names the field, and Conflict where another task has the name.
        """
        return self._transport.send(self._calls.create_task(id, request, fields, idempotency_key))

    def edit_content(self, id: str, content: Patch) -> Challenge:
        """Change the page and the news, such as `{"page": {"title": …}}`; absent fields stay."""
        return self._transport.send(self._calls.edit(id, "content", content=content))

    def edit_rules(self, id: str, rules: Patch) -> Challenge:
        """Change the rules, such as `{"visibility": {"teams": {"*": "public"}}}`; None removes an entry."""
        return self._transport.send(self._calls.edit(id, "rules", rules=rules))

    def edit_task_content(self, id: str, task: str, content: Patch) -> Challenge:
        """Change the page of a task, as `edit_content` does that of the challenge."""
        return self._transport.send(self._calls.edit(id, "tasks", task, "content", content=content))

    def edit_task_rules(
        self, id: str, task: str, rules: Patch | None = None, *, assessment: str | None = None
    ) -> Challenge:
        """Change the rules of a task, and the pipeline that assesses submissions from now on."""
        call = self._calls.edit(id, "tasks", task, "rules", rules=rules, assessment=assessment)
        return self._transport.send(call)

    def teams(self, id: str) -> list[Team]:
        """Return the teams of the challenge that the caller may see."""
        return self._transport.send(self._calls.teams(id))

    def approve_team(self, id: str, team: str) -> Team:
        """Let a team take part. It takes the right to edit the challenge."""
        return self._transport.send(self._calls.decide(id, team, "approve"))

    def deny_team(self, id: str, team: str) -> Team:
        """Deny a team the entry, or end its part."""
        return self._transport.send(self._calls.decide(id, team, "deny"))


class Teams(Collection[Team]):
    """People who take part in a challenge together."""

    _calls: TeamCalls

    def __init__(self, calls: TeamCalls, transport: Transport) -> None:
        super().__init__(calls, transport)

    def create(self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any) -> Team:
        """Ask to enter a challenge: `create(account=…, challenge=<id>, name=…, members={…}, affiliations={…})`.

        The team takes part once the challenge's organiser has approved it. Raises Invalid, which names the field.
        """
        return self._transport.send(self._calls.create(request, fields, idempotency_key))

    def edit(self, id: str, **patch: Any) -> Team:
        """Change `name`, `members` or `affiliations`; a member that is None is removed, others stay."""
        return self._transport.send(self._calls.edit(id, patch))


class Submissions(Collection[Submission]):
    """Entities that teams hand in for tasks, and the runs that assess them."""

    _calls: SubmissionCalls

    def __init__(self, calls: SubmissionCalls, transport: Transport) -> None:
        super().__init__(calls, transport)

    def create(
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> Submission:
        """Submit: `create(account=…, challenge=<id>, task=<id>, team=<id>, submission={"id": …, "kind": …})`.

        A submission beyond the limit of its cycle is an Error with the reason RateLimitExceeded. Raises Forbidden where
        the team or the caller may not submit, Conflict before the task opens and after it closes.
        """
        return self._transport.send(self._calls.create(request, fields, idempotency_key))

    def resubmit(self, id: str, *, idempotency_key: str | None = None, **fields: Any) -> Submission:
        """Repeat an earlier submission: `resubmit(id, account=…)`.

        `steps=["node", …]` runs some steps alone, as `client.pipelineruns.rerun` does.
        """
        return self._transport.send(self._calls.resubmit(id, fields, idempotency_key))

    def links(self, id: str) -> dict[str, list[ArtifactURL]]:
        """Return where the files of the run's workflows are downloaded, by the nodes of the pipeline."""
        return self._transport.send(self._calls.files(id))
