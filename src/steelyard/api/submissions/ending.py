"""The end of a submission by a client: its run and the run's workflows end with it."""

import orjson
from starlette.responses import Response

from steelyard.api.entities.loading import EntitySummary, load, parse
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict
from steelyard.api.http.responses import model_response
from steelyard.api.pipelines.ending import (
    check_revision,
    end_workflows,
    terminate_entity,
    without_condition,
)
from steelyard.api.pipelines.progress import overall, workflow_statuses
from steelyard.api.submissions.lending import with_lent_rights
from steelyard_schema.answers import Status
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.status import FAILURE, SUCCESS, TERMINAL
from steelyard_schema.submission import Submission


async def end_submission(context: RequestContext, entity: EntitySummary, status: str) -> str | None:
    """End the run of a submission that is deleted, with its workflows; return how many, in a sentence."""
    check_revision(context, entity)
    try:
        submission = parse(entity.kind, orjson.dumps(entity.content))
    except Conflict:  # one of an older version can still be deleted
        return None
    assert isinstance(submission, Submission)
    run = await _find_run(context, submission)
    if run is None or run.status in TERMINAL or await _is_over(context, run):
        return None
    return await _end_run(context, run)


async def terminate(context: RequestContext) -> Response:
    """The status of the submission. One that is complete, or has ended otherwise, stays as it is."""
    submission = await load(context)
    assert isinstance(submission, Submission)
    run = await _find_run(context, submission)
    if submission.status in TERMINAL or (run is not None and await _is_over(context, run)):
        return model_response(
            Status(status=submission.status, reason=submission.reason, message=submission.message)
        )
    origin = context.command_origin()
    # The submission ends last: where the process dies in between, a repeat ends the others.
    if run is not None and run.status not in TERMINAL:
        await _end_run(context, run)
    content = orjson.loads(await terminate_entity(context, submission.kind, submission.id, origin))
    return model_response(Status(**{name: content.get(name) for name in Status.model_fields}))


async def _find_run(context: RequestContext, submission: Submission) -> PipelineRun | None:
    json = await context.api.entities.get("PipelineRun", submission.pipelineRun)
    return PipelineRun.model_validate_json(json) if json is not None else None


async def _end_run(context: RequestContext, run: PipelineRun) -> str | None:
    """End the workflows of a run, and then the run; return how many, in a sentence."""
    ended = await end_workflows(with_lent_rights(context, run.account), run, "Terminated")
    # The caller's If-Match is about the submission.
    await terminate_entity(context, run.kind, run.id, without_condition(context.command_origin()))
    return ended


async def _is_over(context: RequestContext, run: PipelineRun) -> bool:
    """Return whether the run has come to its end by itself."""
    status = run if run.status in TERMINAL else overall(await workflow_statuses(context.api, run))
    return status.status in SUCCESS | FAILURE
