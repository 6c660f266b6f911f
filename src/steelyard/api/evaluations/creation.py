"""Evaluations from their create requests: with a session of their own, or one that runs already."""

from collections.abc import Sequence

from steelyard.api.datasets.columns import find_columns
from steelyard.api.entities.creation import NewEntity, check_replicas
from steelyard.api.entities.references import foreign_service, resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard_schema.artifact_images import image_notes
from steelyard_schema.columns import INDEX, columns_read, lacking, missing
from steelyard_schema.dataset import Dataset
from steelyard_schema.dependencies import data_mounts, naming
from steelyard_schema.entities import AnyEntity
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.inference_session import InferenceSession, InferenceSessionSpec
from steelyard_schema.requests import EvaluationCreateRequest, EvaluationInferenceSessionRequest
from steelyard_schema.secrets import list_service_secrets, secret_annotations

DYFF_TIMEOUT_SECONDS = 30
"""Time for an answer where a request names none: what programs written for Dyff count on. Our client names its own."""
OWN_INPUT = "dataset"
"""Name of the dataset among the inputs of an evaluation's resource."""


async def evaluation(
    context: RequestContext, request: EvaluationCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    dataset = await resolve(context, Dataset, request.dataset, "dataset")
    secrets: Sequence[dict[str, str]] = ()  # a session that runs has its own
    if request.inferenceSession is not None:
        session, secrets = await own_session(context, request.inferenceSession)
    else:
        field = "inferenceSessionReference"
        running = await resolve(context, InferenceSession, request.inferenceSessionReference or "", field)
        fields = {name: getattr(running, name) for name in InferenceSessionSpec.model_fields}
        session = InferenceSessionSpec(**fields)
    await _check_dataset(context, dataset, request, session)
    annotations = [*naming(dataset=dataset.name), *secrets]
    # The id, not the reference: its tag may go to another dataset later.
    content: dict[str, object] = {"dataset": dataset.id, "annotations": annotations}
    if "requestTimeoutSeconds" not in request.client.model_fields_set:
        content["client"] = {**request.client.dump(), "requestTimeoutSeconds": DYFF_TIMEOUT_SECONDS}
    return [new.entity(Evaluation, {**request.dump(), "inferenceSession": session.dump(), **content})]


async def _check_dataset(
    context: RequestContext, dataset: Dataset, request: EvaluationCreateRequest, session: InferenceSessionSpec
) -> None:
    """Raise Invalid for a dataset that is known to lack a column that every row needs, or has a number twice."""
    columns = await find_columns(context.api.platform.store, dataset)
    if columns is None:
        return
    where = f"dataset {dataset.id}"
    if INDEX not in columns:
        raise Invalid(
            f"dataset: {where} has no column {INDEX!r}; {lacking([INDEX], columns)}", field="dataset"
        )
    if not columns[INDEX]:
        raise Invalid(
            f"dataset: {INDEX} of {where} must hold a whole number from 0 in every row", field="dataset"
        )
    own, service = request.client.inputPipeline or (), session.inferenceService.interface.inputPipeline or ()
    # The first adapter reads the row itself; the others what it makes of it.
    first = next(iter((*own, *service)), None)
    field = "client.inputPipeline.0" if own else "dataset"
    for name in columns_read(first) if first is not None else ():
        if fault := missing(name, columns, where):
            raise Invalid(f"{field}: the input pipeline {fault}", field=field)
    if fault := await context.api.row_faults.find(dataset, None, ()):
        raise Invalid(f"dataset: {where}: {fault}", field="dataset")


async def own_session(
    context: RequestContext, request: EvaluationInferenceSessionRequest
) -> tuple[InferenceSessionSpec, Sequence[dict[str, str]]]:
    """Return the session that an evaluation has for itself, with its service embedded.

    Second, the annotations that name the secrets which the session needs.
    """
    if request.expires is not None and request.expires <= context.now:
        field = "inferenceSession.expires"
        raise Invalid(f"{field}: {request.expires.isoformat()} is past", field=field)
    check_replicas(context, request.replicas, "inferenceSession.replicas")
    field = "inferenceSession.inferenceService"
    service = await resolve(context, InferenceService, request.inferenceService, field)
    if any(mount.name == OWN_INPUT for mount in data_mounts(service)):
        raise Invalid(
            f"{field}: a mount of its runner is called {OWN_INPUT!r}, as the evaluation's own dataset is",
            field=field,
        )
    content = {**request.dump(), "inferenceService": foreign_service(service).dump()}
    notes = [*secret_annotations(list_service_secrets(service)), *image_notes(service)]
    return InferenceSessionSpec.parse(content), notes
