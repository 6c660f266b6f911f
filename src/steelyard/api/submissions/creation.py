"""Submissions: a team hands in an entity for a task, and a run of the task's pipeline assesses it.

The run belongs to the task's account, and is created with the submission, all or none. A submission beyond the limit of
its cycle is kept as an Error with its reason, as the published platform does; its run and workflows are created
as failed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.api.challenges.loading import challenge_of_path, find_task
from steelyard.api.challenges.roles import organises, role_in, sees
from steelyard.api.commands.commands import derive_id
from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.loading import load, parse
from steelyard.api.entities.references import resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, Invalid, NotFound
from steelyard.api.pipelines.reruns import keep_workflows
from steelyard.api.pipelines.runs import NONE_KEPT, entities_of_run
from steelyard.api.submissions.cycles import EXCEEDED, find_cycle, is_exempt, list_counted
from steelyard.api.submissions.lending import with_lent_rights
from steelyard_schema.base import EntityIdentifier
from steelyard_schema.challenge import Challenge
from steelyard_schema.challenge_task import ChallengeTask
from steelyard_schema.entities import ENTITIES, AnyEntity
from steelyard_schema.pipeline import Pipeline
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.requests import PipelineRunRequest, ResubmissionRequest, SubmissionCreateRequest
from steelyard_schema.status import NEVER_RAN, WITH_WORKFLOW, failure_status
from steelyard_schema.submission import Submission
from steelyard_schema.team import Team


async def submission(
    context: RequestContext, request: SubmissionCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    """Return the submission, its run and the run's workflows."""
    challenge = await challenge_of_path(context)
    task = find_task(challenge, context.values["task"])
    await _check_open(context, challenge, task)
    content = {"team": request.team, "submission": request.submission.dump()}
    return await _entities(context, challenge, task, content, new)


async def resubmission(
    context: RequestContext, request: ResubmissionRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    """Return a new submission of an earlier submission's content, for the same team and task."""
    before = await _earlier(context)
    json = await context.api.entities.get("Challenge", before.challenge)
    if json is None:
        raise NotFound(f"challenge: there is no Challenge {before.challenge}")
    challenge = parse("Challenge", json)
    assert isinstance(challenge, Challenge)
    task = find_task(challenge, before.task)
    if not organises(context, challenge.account, challenge.id):
        await _check_open(context, challenge, task)
    content = {
        "team": before.team,
        "submission": before.submission.dump(),
        "resubmissionOf": before.id,
    }
    kept = await _keep_workflows(context, before, task, request.steps)
    return await _entities(context, challenge, task, content, new, kept)


async def _keep_workflows(
    context: RequestContext, before: Submission, task: ChallengeTask, steps: Sequence[str] | None
) -> Mapping[str, EntityIdentifier]:
    """Return the workflows of the earlier submission's run that the new run keeps. Raises Invalid."""
    if steps is None:
        return NONE_KEPT
    json = await context.api.entities.get("PipelineRun", before.pipelineRun)
    if json is None:
        raise Invalid(f"steps: there is no PipelineRun {before.pipelineRun} any more", field="steps")
    run = parse("PipelineRun", json)
    assert isinstance(run, PipelineRun)
    if run.pipeline != task.assessment:
        raise Invalid(
            "steps: the task has another pipeline now; without `steps`, all of its steps run", field="steps"
        )
    return await keep_workflows(with_lent_rights(context, task.account), run, steps)


async def turn_of_submission(context: RequestContext, request: SubmissionCreateRequest) -> str:
    """Return the task and team whose submissions are counted one after the other."""
    return f"{context.values['task']}/{request.team}"


async def turn_of_resubmission(context: RequestContext, request: ResubmissionRequest) -> str:
    before = await _earlier(context)
    return f"{before.task}/{before.team}"


async def _earlier(context: RequestContext) -> Submission:
    before = await load(context)
    assert isinstance(before, Submission)
    return before


async def _check_open(context: RequestContext, challenge: Challenge, task: ChallengeTask) -> None:
    """Raise Forbidden where the caller's role may not submit, Conflict before the task opens and after it closes."""
    needed, schedule = task.rules.visibility.submit, task.rules.schedule
    role = await role_in(context, challenge.account, challenge.id)
    if needed == "hidden" or (needed == "reviewer" and not sees(role, needed)):
        raise Forbidden(f"rules.visibility.submit: is {needed}: the token may not submit to this task")
    if schedule.openingTime and context.now < schedule.openingTime:
        raise Conflict(f"rules.schedule.openingTime: the task opens at {schedule.openingTime.isoformat()}")
    if schedule.closingTime and context.now >= schedule.closingTime:
        raise Conflict(f"rules.schedule.closingTime: the task closed at {schedule.closingTime.isoformat()}")


async def _entities(
    context: RequestContext,
    challenge: Challenge,
    task: ChallengeTask,
    content: dict[str, Any],
    new: NewEntity,
    kept: Mapping[str, EntityIdentifier] = NONE_KEPT,
) -> Sequence[AnyEntity]:
    team = await _team(context, challenge, str(content["team"]))
    kind = content["submission"]["kind"]
    if kind != task.submissionStructure.submissionKind:
        raise Invalid(
            f"submission.kind: is {kind}; this task takes the kind {task.submissionStructure.submissionKind}",
            field="submission.kind",
        )
    submitted = await resolve(context, ENTITIES[kind], content["submission"]["id"], "submission.id")
    content = {**content, "submission": {**content["submission"], "id": submitted.id}}
    run_id = derive_id("submission", new.id, "run")
    fields = {**content, "challenge": challenge.id, "task": task.id, "pipelineRun": run_id}
    new_submission = new.entity(Submission, fields)
    lent = with_lent_rights(context, task.account)
    pipeline = await resolve(lent, Pipeline, task.assessment, "assessment")
    run = PipelineRunRequest(
        account=task.account,
        pipeline=pipeline.id,
        arguments={task.submissionStructure.pipelineKeyword: submitted.id},
    )
    privileged: dict[str, object] = {"securityContext": new_submission.securityContext.dump()}
    new_run = NewEntity(run_id, task.account, new.now, privileged)
    workflows = await entities_of_run(lent, run, new_run, kept)
    message = await _beyond(context, task, team, new_submission)
    entities = (new_submission, *workflows)
    return entities if message is None else [_fail(entity, message) for entity in entities]


async def _team(context: RequestContext, challenge: Challenge, id: str) -> Team:
    team = await resolve(context, Team, id, "team")
    if team.challenge != challenge.id:
        raise Invalid(
            f"team: {id} is a team of the challenge {team.challenge}, and the task belongs to {challenge.id}",
            field="team",
        )
    if team.status != "Active":
        raise Forbidden(f"team: {id} is {team.status}; only Active teams may submit", field="team")
    return team


async def _beyond(
    context: RequestContext, task: ChallengeTask, team: Team, submission: Submission
) -> str | None:
    """Return why the submission is beyond the limit of its cycle; None for one within it."""
    schedule = task.rules.schedule
    if is_exempt(submission.securityContext.ignoreQuotas, team):
        return None
    cycle, limit = find_cycle(schedule, context.now), schedule.submissionLimitPerCycle
    # A repeat is not counted against itself.
    others = [id for id in await list_counted(context.api.entities, task, team, cycle) if id != submission.id]
    if len(others) < limit:
        return None
    return f"Submission limit exceeded: {len(others)}/{limit} of this cycle, which ends at {cycle.end.isoformat()}"


def _fail(entity: AnyEntity, message: str) -> AnyEntity:
    status = NEVER_RAN if entity.kind in WITH_WORKFLOW else failure_status(entity.kind)
    change = {"status": status, "reason": EXCEEDED, "message": message}
    return entity.model_copy(update=change)
