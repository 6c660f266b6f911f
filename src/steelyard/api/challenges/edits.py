"""Edits of a challenge and of its tasks: content and rules, as merge patches."""

from starlette.responses import Response

from steelyard.api.challenges.loading import find_task
from steelyard.api.challenges.tasks import resolve_assessment
from steelyard.api.commands.commands import Edit
from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.api.http.responses import json_response
from steelyard_schema.challenge import Challenge
from steelyard_schema.challenge_task import ChallengeTask
from steelyard_schema.commands import (
    ChallengeContentAttributes,
    ChallengeContentData,
    ChallengeRulesAttributes,
    ChallengeRulesData,
    ChallengeTaskRulesData,
    EditChallengeContent,
    EditChallengeRules,
    EditChallengeTaskRules,
    TaskContentEdit,
    TaskRulesAttributes,
    TaskRulesEdit,
)
from steelyard_schema.requests import (
    ChallengeContentEditRequest,
    ChallengeRulesEditRequest,
    ChallengeTaskRulesEditRequest,
)


async def edit_content(context: RequestContext) -> Response:
    """The challenge after the edit."""
    request = await context.edit(ChallengeContentEditRequest)
    challenge = await _challenge(context)
    attributes = ChallengeContentAttributes(content=request.content)
    data = ChallengeContentData(id=challenge.id, kind="Challenge", attributes=attributes)
    return await _edit_response(context, EditChallengeContent(data=data))


async def edit_rules(context: RequestContext) -> Response:
    """The challenge after the edit."""
    request = await context.edit(ChallengeRulesEditRequest)
    challenge = await _challenge(context)
    attributes = ChallengeRulesAttributes(rules=request.rules)
    data = ChallengeRulesData(id=challenge.id, kind="Challenge", attributes=attributes)
    return await _edit_response(context, EditChallengeRules(data=data))


async def edit_task_content(context: RequestContext) -> Response:
    """The challenge after the edit of a task's content."""
    request = await context.edit(ChallengeContentEditRequest)
    challenge, task = await _task(context)
    if request.content and request.content.news is not None:
        raise Invalid("content.news: a task has a page and no news", field="content.news")
    edit = TaskContentEdit(content=request.content)
    attributes = ChallengeContentAttributes(tasks={task.id: edit})
    data = ChallengeContentData(id=challenge.id, kind="Challenge", attributes=attributes)
    return await _edit_response(context, EditChallengeContent(data=data))


async def edit_task_rules(context: RequestContext) -> Response:
    """The challenge after the edit of a task's rules, which count for submissions from now on."""
    request = await context.edit(ChallengeTaskRulesEditRequest)
    challenge, task = await _task(context)
    assessment = request.assessment
    if assessment is not None:
        assessment = await resolve_assessment(context, assessment, task.submissionStructure, task.account)
    edit = TaskRulesEdit(rules=request.rules, assessment=assessment)
    attributes = TaskRulesAttributes(tasks={task.id: edit})
    data = ChallengeTaskRulesData(id=challenge.id, kind="Challenge", attributes=attributes)
    return await _edit_response(context, EditChallengeTaskRules(data=data))


async def _challenge(context: RequestContext) -> Challenge:
    challenge = await load(context)
    assert isinstance(challenge, Challenge)
    return challenge


async def _task(context: RequestContext) -> tuple[Challenge, ChallengeTask]:
    challenge = await _challenge(context)
    return challenge, find_task(challenge, context.values["task"])


async def _edit_response(context: RequestContext, command: Edit) -> Response:
    return json_response(await context.api.commands.edit(command, context.command_origin(), context.now))
