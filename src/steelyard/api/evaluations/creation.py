"""Evaluations from their create requests: with a session of their own, or one that runs already."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity, check_replicas
from steelyard.api.entities.references import foreign_service, resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.schema.artifact_images import image_notes
from steelyard.schema.dataset import Dataset
from steelyard.schema.dependencies import data_mounts, naming
from steelyard.schema.entities import AnyEntity
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession, InferenceSessionSpec
from steelyard.schema.requests import EvaluationCreateRequest, EvaluationInferenceSessionRequest
from steelyard.schema.secrets import annotations_of, service_secrets_of

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
    annotations = [*naming(dataset=dataset.name), *secrets]
    # The id, not the reference: its tag may go to another dataset later.
    content = {"dataset": dataset.id, "annotations": annotations}
    return [new.entity(Evaluation, {**request.dump(), "inferenceSession": session.dump(), **content})]


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
    notes = [*annotations_of(service_secrets_of(service)), *image_notes(service)]
    return InferenceSessionSpec.parse(content), notes
