"""The end of a submission by a client: its run and the run's workflows end with it."""

import orjson
from starlette.responses import Response

from steelyard.api.entities.loading import EntitySummary, load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import model_response
from steelyard.api.pipelines.ending import end_run, terminate_entity, without_condition
from steelyard.api.pipelines.progress import overall, workflow_statuses
from steelyard.api.submissions.lending import with_lent_rights
from steelyard.schema.answers import Status
from steelyard.schema.pipeline_run import PipelineRun
from steelyard.schema.status import FAILURE, SUCCESS, TERMINAL
from steelyard.schema.submission import Submission


async def terminate(context: RequestContext) -> Response:
    """The status of the submission. One that is complete, or has ended otherwise, stays as it is."""
    submission = await load(context)
    assert isinstance(submission, Submission)
    json = await context.api.entities.get("PipelineRun", submission.pipelineRun)
    run = PipelineRun.model_validate_json(json) if json is not None else None
    if submission.status in TERMINAL or (run is not None and await _is_over(context, run)):
        return model_response(
            Status(status=submission.status, reason=submission.reason, message=submission.message)
        )
    origin = context.command_origin()
    # The submission ends last: where the process dies in between, a repeat ends the others.
    if run is not None and run.status not in TERMINAL:
        summary = EntitySummary(run.id, run.kind, run.status, run.reason, run.dump())
        await end_run(with_lent_rights(context, run.account), summary, "Terminated")
        await terminate_entity(context, run.kind, run.id, without_condition(origin))
    content = orjson.loads(await terminate_entity(context, submission.kind, submission.id, origin))
    return model_response(Status(**{name: content.get(name) for name in Status.model_fields}))


async def _is_over(context: RequestContext, run: PipelineRun) -> bool:
    """Return whether the run has come to its end by itself."""
    status = run if run.status in TERMINAL else overall(await workflow_statuses(context.api, run))
    return status.status in SUCCESS | FAILURE
