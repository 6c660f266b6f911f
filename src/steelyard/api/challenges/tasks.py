"""Creation of tasks. The caller who adds a task lends its runs the rights to use what the task's pipeline names."""

import orjson
from starlette.responses import Response

from steelyard.api.commands.commands import derive_id
from steelyard.api.entities.loading import load
from steelyard.api.entities.references import resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, Invalid
from steelyard.api.http.responses import value_response
from steelyard_schema.account import APIFunction, APIResource
from steelyard_schema.challenge import Challenge
from steelyard_schema.challenge_task import ChallengeTask, SubmissionStructure
from steelyard_schema.commands import ChallengeTaskData, CreateChallengeTask, TaskAttributes
from steelyard_schema.pipeline import Pipeline
from steelyard_schema.requests import ChallengeTaskCreateRequest

CREATED: dict[str, APIResource] = {
    "PipelineEvaluationRequest": "evaluations",
    "PipelineMeasurementRequest": "measurements",
    "PipelineSafetyCaseRequest": "safetycases",
}
"""Resources that the nodes of a pipeline create, by the kind of the node's request."""
USED: tuple[APIResource, ...] = (
    *("pipelines", "datasets", "modules", "models", "inferenceservices", "methods", "families"),
    *("evaluations", "measurements", "safetycases", "reports"),
)
"""Resources whose entities a run may use."""


async def create_task(context: RequestContext) -> Response:
    """The task, as the challenge holds it from now on."""
    request = await context.body(ChallengeTaskCreateRequest)
    challenge = await load(context)
    assert isinstance(challenge, Challenge)
    if request.challenge != challenge.id:
        raise Invalid(f"challenge: is {request.challenge}; the path names {challenge.id}", field="challenge")
    # Names are unique within a challenge: an id that follows from the name is the same for every repeat.
    id = derive_id("challengetask", challenge.id, request.name)
    if (task := challenge.tasks.get(id)) is not None:
        return _find_equal_task(task, request)
    await check_assessment(context, request.assessment, request.submissionStructure, request.account)
    own = {"id": id, "status": "Ready", "creationTime": context.now}
    task = ChallengeTask.model_validate({**request.model_dump(exclude={"schemaVersion"}), **own})
    data = ChallengeTaskData(id=challenge.id, kind="Challenge", attributes=TaskAttributes(task=task))
    command = CreateChallengeTask(data=data)
    json = await context.api.commands.edit(command, context.command_origin(), context.now)
    return value_response(orjson.loads(json)["tasks"][id])


def _find_equal_task(task: ChallengeTask, request: ChallengeTaskCreateRequest) -> Response:
    """Return the task of an equal request, whose answer may have been lost. Raises Conflict for another one."""
    asked, there = request.dump(), task.dump()
    if differing := [name for name in asked if name != "schemaVersion" and asked[name] != there.get(name)]:
        raise Conflict(
            f"name: the challenge has a task {task.name!r} already, with another {differing[0]}", field="name"
        )
    return value_response(there)


async def check_assessment(
    context: RequestContext, id: str, structure: SubmissionStructure, account: str
) -> None:
    """Raise Invalid for a pipeline that a submission alone cannot run, Forbidden for one the caller may not lend."""
    _check_pipeline(context, await resolve(context, Pipeline, id, "assessment"), structure, account)


async def resolve_assessment(
    context: RequestContext, id: str, structure: SubmissionStructure, account: str
) -> str:
    """Return the assessment that a task gets by an edit, which may be any text, as with Dyff.

    Submissions are refused as long as it is not the id of a pipeline. Nobody knows what the pipeline will create, so
    the caller must have every right to lend. Raises Invalid and Forbidden as `check_assessment` does.
    """
    try:
        pipeline = await resolve(context, Pipeline, id, "assessment")
    except Invalid:
        _check_lent(context, account, list(CREATED.values()), "create")
        _check_lent(context, account, USED, "consume")
        return id
    _check_pipeline(context, pipeline, structure, account)
    # The id, not a reference: its tag may go to another pipeline later.
    return pipeline.id


def _check_pipeline(
    context: RequestContext, pipeline: Pipeline, structure: SubmissionStructure, account: str
) -> None:
    keyword, known = structure.pipelineKeyword, pipeline.parameters
    if keyword not in known:
        field = "submissionStructure.pipelineKeyword"
        raise Invalid(
            f"{field}: {keyword!r} is not a parameter of the pipeline; there are {', '.join(known) or 'none'}",
            field=field,
        )
    if others := [name for name in known if name != keyword]:
        raise Invalid(
            f"assessment: the pipeline also has the parameter {others[0]!r}; a submission sets only {keyword!r}",
            field="assessment",
        )
    created = {CREATED[node.request.kind] for node in pipeline.nodes.values()}
    _check_lent(context, account, sorted(created), "create")
    _check_lent(context, account, USED, "consume")


def _check_lent(
    context: RequestContext, account: str, resources: tuple[APIResource, ...] | list[APIResource],
    function: APIFunction,
) -> None:  # fmt: skip
    for resource in resources:
        # Runs of submissions act in the name of this account, so the caller must have every right that they get.
        if not context.access.allows(resource, function, account, ""):
            raise Forbidden(
                f"account: runs of the task need {resource}/{function} for account {account!r}, which the token lacks",
                field="account",
            )
