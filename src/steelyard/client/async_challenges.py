"""The collections of `challenges.py` for asyncio; their methods are documented there."""

from typing import Any

from steelyard.client.async_collections import AsyncCollection, document_by
from steelyard.client.calls import Request
from steelyard.client.challenge_calls import ChallengeCalls, SubmissionCalls, TeamCalls
from steelyard.client.challenges import Challenges, Patch, Submissions, Teams
from steelyard.client.transport import AsyncTransport
from steelyard_schema.answers import ArtifactURL
from steelyard_schema.challenge import Challenge
from steelyard_schema.challenge_task import ChallengeTask
from steelyard_schema.submission import Submission
from steelyard_schema.team import Team


@document_by(Challenges)
class AsyncChallenges(AsyncCollection[Challenge]):
    """Tasks that teams compete in."""

    _calls: ChallengeCalls

    def __init__(self, calls: ChallengeCalls, transport: AsyncTransport) -> None:
        super().__init__(calls, transport)

    async def create_task(
        self, id: str, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> ChallengeTask:
        return await self._transport.send(self._calls.create_task(id, request, fields, idempotency_key))

    async def edit_content(self, id: str, content: Patch) -> Challenge:
        return await self._transport.send(self._calls.edit(id, "content", content=content))

    async def edit_rules(self, id: str, rules: Patch) -> Challenge:
        return await self._transport.send(self._calls.edit(id, "rules", rules=rules))

    async def edit_task_content(self, id: str, task: str, content: Patch) -> Challenge:
        return await self._transport.send(self._calls.edit(id, "tasks", task, "content", content=content))

    async def edit_task_rules(
        self, id: str, task: str, rules: Patch | None = None, *, assessment: str | None = None
    ) -> Challenge:
        call = self._calls.edit(id, "tasks", task, "rules", rules=rules, assessment=assessment)
        return await self._transport.send(call)

    async def teams(self, id: str) -> list[Team]:
        return await self._transport.send(self._calls.teams(id))

    async def approve_team(self, id: str, team: str) -> Team:
        return await self._transport.send(self._calls.decide(id, team, "approve"))

    async def deny_team(self, id: str, team: str) -> Team:
        return await self._transport.send(self._calls.decide(id, team, "deny"))


@document_by(Teams)
class AsyncTeams(AsyncCollection[Team]):
    """People who take part in a challenge together."""

    _calls: TeamCalls

    def __init__(self, calls: TeamCalls, transport: AsyncTransport) -> None:
        super().__init__(calls, transport)

    async def create(
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> Team:
        return await self._transport.send(self._calls.create(request, fields, idempotency_key))

    async def edit(self, id: str, **patch: Any) -> Team:
        return await self._transport.send(self._calls.edit(id, patch))


@document_by(Submissions)
class AsyncSubmissions(AsyncCollection[Submission]):
    """Entities that teams hand in for tasks, and the runs that assess them."""

    _calls: SubmissionCalls

    def __init__(self, calls: SubmissionCalls, transport: AsyncTransport) -> None:
        super().__init__(calls, transport)

    async def create(
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> Submission:
        return await self._transport.send(self._calls.create(request, fields, idempotency_key))

    async def resubmit(self, id: str, *, idempotency_key: str | None = None, **fields: Any) -> Submission:
        return await self._transport.send(self._calls.resubmit(id, fields, idempotency_key))

    async def links(self, id: str) -> dict[str, list[ArtifactURL]]:
        return await self._transport.send(self._calls.files(id))
