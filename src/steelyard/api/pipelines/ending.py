"""The end of a run by a client: its workflows end with it."""

from contextlib import suppress
from dataclasses import replace

from steelyard.api.commands.commands import CommandOrigin
from steelyard.api.entities.loading import EntitySummary
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, NotFound
from steelyard.api.pipelines.progress import may, overall, workflow_statuses
from steelyard_schema.commands import StatusData, StatusPatch, UpdateEntityStatus
from steelyard_schema.entities import PLURALS
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.status import FAILURE, SUCCESS, TERMINAL


async def end_run(context: RequestContext, entity: EntitySummary, status: str) -> str | None:
    """End the workflows of a run that is terminated or deleted; return how many, in a sentence.

    Raises Forbidden, with nothing ended, if the caller may not end all of them, and Conflict if a run is to be
    terminated that has come to its end.
    """
    check_revision(context, entity)
    return await end_workflows(context, PipelineRun.parse(entity.content), status)


def check_revision(context: RequestContext, entity: EntitySummary) -> None:
    """Raise Conflict for an entity that has changed, before its workflows end: its own command comes after them."""
    expected = context.command_origin().headers.get("if-match")
    revision = (entity.content.get("metadata") or {}).get("revision")
    if expected not in {None, "", "*", revision}:
        raise Conflict(f"If-Match: the revision is {revision}, not {expected}", field="If-Match")


async def end_workflows(context: RequestContext, run: PipelineRun, status: str) -> str | None:
    """End the workflows of a run that gets a status; return how many, in a sentence. Raises as `end_run` does."""
    statuses = await workflow_statuses(context.api, run)
    running = [name for name, node in statuses.items() if node.status not in TERMINAL]
    result = overall(statuses).status
    if status == "Terminated" and result in SUCCESS | FAILURE:
        raise Conflict(f"status: PipelineRun {run.id} is {result}: there is nothing to end")
    for name in running:
        workflow = run.workflows[name]
        if not may(context.access, "terminate", run, workflow):
            raise Forbidden(
                f"workflows.{name}: is a running {workflow.kind}, and the token lacks "
                f"{PLURALS[workflow.kind]}/terminate for it",
                field=f"workflows.{name}",
            )
    # The run itself ends after them: where the process dies in between, a repeat ends the others.
    origin = context.command_origin()
    for name in running:
        # A workflow may have ended, or been forgotten, in the meantime.
        with suppress(Conflict, NotFound):
            workflow = run.workflows[name]
            await terminate_entity(context, workflow.kind, workflow.id, without_condition(origin))
    return f"{len(running)} running workflow{'s' * (len(running) > 1)} ended with it" if running else None


def without_condition(origin: CommandOrigin) -> CommandOrigin:
    """Return the origin without the request's If-Match, which is about the revision of another entity."""
    return replace(origin, headers={**origin.headers, "if-match": ""})


async def terminate_entity(context: RequestContext, kind: str, id: str, origin: CommandOrigin) -> bytes:
    """Set the status of an entity to Terminated; return its JSON. Raises Conflict, NotFound."""
    patch = StatusPatch(status="Terminated", reason="TerminateCommand", message=None)
    data = StatusData(id=id, kind=kind, attributes=patch)
    return await context.api.commands.edit(UpdateEntityStatus(data=data), origin, context.now)
