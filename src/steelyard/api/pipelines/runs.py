"""Runs of pipelines: all workflows of a run are created with it, all or none, with ids fixed from the beginning."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson
from pydantic import ValidationError

from steelyard.api.analyses.creation import measurement, safety_case
from steelyard.api.commands.commands import derive_id
from steelyard.api.entities.creation import Build, NewEntity
from steelyard.api.entities.references import resolve
from steelyard.api.evaluations.creation import evaluation
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Forbidden, Invalid, TooLarge, invalid
from steelyard.api.pipelines.graph import order
from steelyard.api.pipelines.placeholders import count_filled_bytes, fill, with_field
from steelyard_common.types import Json, JsonValue
from steelyard_schema.account import APIResource
from steelyard_schema.base import EntityIdentifier
from steelyard_schema.entities import PLURALS, AnyEntity
from steelyard_schema.pipeline import Pipeline, PipelineNode
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.requests import CREATE_REQUESTS, PipelineRunRequest

NONE_KEPT: Mapping[str, EntityIdentifier] = {}
_NODES_TOGETHER = 8
"""Requests of the greatest size that all nodes of one run may have together."""
_WORKFLOWS: dict[str, tuple[str, Build]] = {
    "PipelineEvaluationRequest": ("Evaluation", evaluation),
    "PipelineMeasurementRequest": ("Measurement", measurement),
    "PipelineSafetyCaseRequest": ("SafetyCase", safety_case),
}
"""The kind of entity that a node creates, and its builder, by the kind of the node's request."""


async def pipeline_run(
    context: RequestContext, request: PipelineRunRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    """Return the run and its workflows."""
    if request.pipeline != context.id:
        raise Invalid(f"pipeline: is {request.pipeline}; the path names {context.id}", field="pipeline")
    return await entities_of_run(context, request, new)


async def entities_of_run(
    context: RequestContext,
    request: PipelineRunRequest,
    new: NewEntity,
    kept: Mapping[str, EntityIdentifier] = NONE_KEPT,
) -> Sequence[AnyEntity]:
    """Return a run and its workflows, which have the privileges of the new run.

    Of nodes whose workflows are `kept` from an earlier run, none are created.
    """
    pipeline = await resolve(context, Pipeline, request.pipeline, "pipeline")
    check_arguments(pipeline, request.arguments)
    nodes = order(pipeline)
    ids = {name: derive_id("pipelinerun", new.id, name) for name in nodes}
    ids |= {name: workflow.id for name, workflow in kept.items()}
    limit = context.api.platform.settings.entity_bytes
    contents = requests(pipeline, request.arguments, ids, limit)
    workflows: list[AnyEntity] = []
    for name in (name for name in nodes if name not in kept):
        workflow = await _workflow(context, pipeline.nodes[name], contents[name], new, ids[name])
        context.pending[workflow.id] = workflow  # later nodes refer to it
        workflows.append(workflow)
    named = {name: {"id": ids[name], "kind": _kind(pipeline.nodes[name])} for name in nodes}
    content = {**request.dump(), "workflows": named}
    return [replace(new, privileged={}).entity(PipelineRun, content), *workflows]


def check_arguments(pipeline: Pipeline, arguments: Mapping[str, JsonValue]) -> None:
    """Raise Invalid for an argument that is missing, unknown, or no text where it takes a placeholder's place."""
    for keyword in arguments:
        if keyword not in pipeline.parameters:
            known = ", ".join(pipeline.parameters) or "none"
            field = f"arguments.{keyword}"
            raise Invalid(f"{field}: is not a parameter of the pipeline; there are {known}", field=field)
    for keyword, parameter in pipeline.parameters.items():
        field = f"arguments.{keyword}"
        if keyword not in arguments:
            raise Invalid(f"{field}: is missing, which the pipeline needs", field=field)
        if parameter.destination is None and not isinstance(arguments[keyword], str):
            raise Invalid(f"{field}: should be a text, which takes the place of $({keyword})", field=field)


def requests(
    pipeline: Pipeline, arguments: Mapping[str, JsonValue], ids: Mapping[str, str], limit: int
) -> dict[str, Json]:
    """Return the request of each node, with the run's arguments and the ids of the nodes.

    Raises Invalid, and TooLarge if one would have more than `limit` bytes.
    """
    contents = {name: node.request.dump() for name, node in pipeline.nodes.items()}
    texts = {**ids, **{f"{name}.id": id for name, id in ids.items()}}
    for keyword, parameter in pipeline.parameters.items():
        if parameter.destination is None:
            texts[keyword] = str(arguments[keyword])
    _check_size(contents, texts, limit)
    contents = {name: fill(content, texts) for name, content in contents.items()}
    # After the texts: what a destination receives is data, not a place for placeholders.
    for keyword, parameter in pipeline.parameters.items():
        if parameter.destination is not None:
            name, _, path = parameter.destination.partition(".")
            try:
                contents[name] = with_field(contents[name], path, arguments[keyword])
            except ValueError as error:
                field = f"arguments.{keyword}"
                raise Invalid(f"{field}: {parameter.destination}: {error}", field=field) from error
    return contents


def _check_size(contents: Mapping[str, Json], texts: Mapping[str, str], limit: int) -> None:
    """Raise TooLarge before anything is made that would be larger: placeholders multiply what an argument has."""
    sizes = {
        name: len(orjson.dumps(content)) + count_filled_bytes(content, texts)
        for name, content in contents.items()
    }
    name = max(sizes, key=lambda node: sizes[node])
    total, most = sum(sizes.values()), _NODES_TOGETHER * limit
    if sizes[name] > limit or total > most:
        raise TooLarge(
            f"nodes.{name}.request: would have {sizes[name]} bytes with the run's arguments in the place of its "
            f"placeholders, of {total} in all nodes; {limit} are allowed, and {most} in all",
            field=f"nodes.{name}.request",
        )


async def _workflow(
    context: RequestContext, node: PipelineNode, content: Json, run: NewEntity, id: str
) -> AnyEntity:
    kind, build = _WORKFLOWS[node.request.kind]
    resource: APIResource = PLURALS[kind]  # type: ignore[assignment]
    if not context.access.allows(resource, "create", run.account, ""):
        raise Forbidden(
            f"pipeline: the node {node.name} creates a {kind}, and the token lacks {resource}/create for account "
            f"{run.account!r}",
            field="pipeline",
        )
    fields = {name: value for name, value in content.items() if name != "kind"}
    try:
        request = CREATE_REQUESTS[kind].model_validate({**fields, "account": run.account})
        new = NewEntity(id, run.account, run.now, run.privileged)
        entity, *_ = await build(context, request, new)
    except ValidationError as error:
        raise _node_error(node, invalid(error, CREATE_REQUESTS[kind])) from error
    except Invalid as error:
        raise _node_error(node, error) from error
    return entity


def _node_error(node: PipelineNode, error: Invalid) -> Invalid:
    return Invalid(
        f"nodes.{node.name}.request.{error.detail}", field=f"nodes.{node.name}.request.{error.field}"
    )


def _kind(node: PipelineNode) -> str:
    return _WORKFLOWS[node.request.kind][0]
