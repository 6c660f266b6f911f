"""Status and workflows of a run: they follow from the workflows that the run has created."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response

from steelyard.api.entities.loading import load
from steelyard.api.http.access import Access
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import json_response, model_response
from steelyard.api.platform import Api
from steelyard_schema.account import APIFunction, APIResource
from steelyard_schema.answers import PipelineRunStatus, Status
from steelyard_schema.base import EntityIdentifier
from steelyard_schema.entities import PLURALS
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.run_status import status_of_run
from steelyard_schema.status import TERMINAL

_GONE = Status(status="Deleted", reason="Forgotten")


async def run_status(context: RequestContext) -> Response:
    """The status of a run, and of each of its workflows.

    Of a workflow that the caller may not get, only the status is shown, as a part of the run's.
    """
    run = await load(context)
    assert isinstance(run, PipelineRun)
    known = await workflow_statuses(context.api, run)
    nodes = {
        name: status if may(context.access, "get", run, run.workflows[name]) else Status(status=status.status)
        for name, status in known.items()
    }
    status: Status | PipelineRun = run if run.status in TERMINAL else overall(known)
    return model_response(
        PipelineRunStatus(status=status.status, reason=status.reason, message=status.message, nodes=nodes)
    )


async def run_workflows(context: RequestContext) -> Response:
    """The workflows of a run by their nodes, as far as the caller may see them."""
    run = await load(context)
    assert isinstance(run, PipelineRun)
    parts = []
    for name, workflow in run.workflows.items():
        json = await context.api.entities.get(workflow.kind, workflow.id)
        if json is not None and may(context.access, "get", run, workflow):
            parts.append(orjson.dumps(name) + b":" + json)
    return json_response(b"{%s}" % b",".join(parts))


async def workflow_statuses(api: Api, run: PipelineRun) -> dict[str, Status]:
    """Return the status of each workflow by its node; one that is forgotten counts as deleted."""
    return {
        name: _status(await api.entities.get(workflow.kind, workflow.id))
        for name, workflow in run.workflows.items()
    }


def may(access: Access, function: APIFunction, run: PipelineRun, workflow: EntityIdentifier) -> bool:
    """Return whether the caller may do this to a workflow: a token may be good for runs alone."""
    resource: APIResource = PLURALS[workflow.kind]  # type: ignore[assignment]
    # Workflows belong to the run's account.
    return access.allows(resource, function, run.account, workflow.id)


def overall(statuses: Mapping[str, Status]) -> Status:
    """Return the status of a run whose workflows have these, by their nodes."""
    return status_of_run({name: status.status for name, status in statuses.items()})


def _status(json: bytes | None) -> Status:
    if json is None:
        return _GONE
    content = orjson.loads(json)
    return Status(**{name: content.get(name) for name in Status.model_fields})
