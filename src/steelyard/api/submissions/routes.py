"""Routes that only submissions have: a task's path creates them."""

from collections.abc import Iterator
from dataclasses import replace

from starlette.responses import Response

from steelyard.api.datasets.downlinks import link, list_artifacts
from steelyard.api.entities.collection import Collection
from steelyard.api.entities.loading import load, parse
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import value_response
from steelyard.api.http.routing import Route
from steelyard.api.pipelines.progress import may
from steelyard.api.submissions.creation import resubmission, turn_of_resubmission, turn_of_submission
from steelyard.api.submissions.ending import terminate
from steelyard_schema.answers import ArtifactURL, Status
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.requests import ResubmissionRequest
from steelyard_schema.status import SUCCESS
from steelyard_schema.submission import Submission


def submission_routes(collection: Collection) -> Iterator[Route]:
    resource, one = collection.resource, f"{collection.path}/{{id}}"
    create = Grant(resource, "create")
    first = replace(collection, turn=turn_of_submission)
    again = replace(collection, request=ResubmissionRequest, build=resubmission, turn=turn_of_resubmission)
    yield Route(
        "POST", "/v0/challenges/{id}/tasks/{task}/submissions", create, first.create, "Submit",
        collection.request, Submission,
    )  # fmt: skip
    yield Route(
        "POST", f"{one}/resubmit", create, again.create, "Submit again", ResubmissionRequest, Submission
    )
    yield Route(
        "POST", f"{one}/terminate", Grant(resource, "terminate"), terminate, "Terminate", None, Status
    )
    yield Route(
        "GET", f"{one}/downlinks", Grant(resource, "data"), submission_downlinks, "Where to download", None,
        dict[str, list[ArtifactURL]], errors=(400,),
    )  # fmt: skip


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
            files = await list_artifacts(context, entity)
            links[name] = [(await link(context, entity, file)).dump() for file in files]
    return value_response(links)
