"""Runs of single steps of an earlier run: the new run keeps the workflows of the other steps, which have succeeded.

What depends on a step that runs again runs again with it. The earlier run stays as it is.
"""

from collections.abc import Mapping, Sequence

import orjson

from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.loading import load
from steelyard.api.entities.references import resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.api.pipelines.graph import with_dependents
from steelyard.api.pipelines.runs import entities_of_run
from steelyard_schema.base import Annotation, EntityIdentifier
from steelyard_schema.entities import ENTITIES, AnyEntity
from steelyard_schema.pipeline import Pipeline
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.requests import PipelineRunRequest, RerunRequest
from steelyard_schema.reruns import RERUN_OF
from steelyard_schema.status import SUCCESS


async def rerun(context: RequestContext, request: RerunRequest, new: NewEntity) -> Sequence[AnyEntity]:
    """Return a new run with the pipeline and the arguments of the path's run, and the workflows of its steps."""
    before = await load(context)
    assert isinstance(before, PipelineRun)
    # The workflows that are kept belong to the run's account, and rights about a run's workflows go by that account.
    if request.account != before.account:
        raise Invalid(
            f"account: is {request.account}; the run {before.id} belongs to {before.account}", field="account"
        )
    kept = await keep_workflows(context, before, request.steps)
    fields = {"account": before.account, "pipeline": before.pipeline, "arguments": before.arguments}
    run, *workflows = await entities_of_run(context, PipelineRunRequest.parse(fields), new, kept)
    note = Annotation(key=RERUN_OF, value=before.id)
    return [run.model_copy(update={"annotations": [note]}), *workflows]


async def keep_workflows(
    context: RequestContext, before: PipelineRun, steps: Sequence[str] | None
) -> Mapping[str, EntityIdentifier]:
    """Return the workflows that a new run keeps of an earlier one, by nodes; none if all steps run again.

    Raises Invalid if there is no such step, or if a workflow that would be kept has not succeeded.
    """
    if steps is None:
        return {}
    pipeline = await resolve(context, Pipeline, before.pipeline, "pipeline")
    again = with_dependents(pipeline, steps)
    kept = {name: workflow for name, workflow in before.workflows.items() if name not in again}
    for name, workflow in kept.items():
        await _check_kept(context, name, workflow)
    return kept


async def _check_kept(context: RequestContext, name: str, workflow: EntityIdentifier) -> None:
    missing = f"steps: {name} is not among them, and its {workflow.kind} {workflow.id} cannot be kept"
    json = await context.api.entities.get(workflow.kind, workflow.id)
    status = None if json is None else str(orjson.loads(json)["status"])
    if json is None or status not in SUCCESS:
        raise Invalid(f"{missing}: it is {'not there' if status is None else status}", field="steps")
    # The same rights as where a request names the entity: a run alone gives none to its workflows.
    await resolve(context, ENTITIES[workflow.kind], workflow.id, "steps")
