"""Signed URLs of the files that a submission's workflows have made, by the nodes of the pipeline."""

from starlette.responses import Response

from steelyard.api.datasets.downlinks import artifacts_of, link
from steelyard.api.entities.loading import load, parse
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import value_response
from steelyard.api.pipelines.progress import may
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.status import SUCCESS
from steelyard_schema.submission import Submission


async def submission_downlinks(context: RequestContext) -> Response:
    """The files of the workflows that have succeeded, and whose data the caller may read."""
    submission = await load(context)
    assert isinstance(submission, Submission)
    json = await context.api.entities.get("PipelineRun", submission.pipelineRun)
    if json is None:
        return value_response({})
    run, links = PipelineRun.model_validate_json(json), {}
    for name, workflow in run.workflows.items():
        content = await context.api.entities.get(workflow.kind, workflow.id)
        # The challenge's data stay its own: a submission alone gives no right to outputs about hidden data.
        if content is None or not may(context.access, "data", run, workflow):
            continue
        entity = parse(workflow.kind, content)
        if entity.status in SUCCESS:
            files = await artifacts_of(context, entity)
            links[name] = [(await link(context, entity, file)).dump() for file in files]
    return value_response(links)
