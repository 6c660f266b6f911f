"""Evaluations: with a session of their own, or one that runs already."""

from collections.abc import Sequence

from steelyard.api.entities.creation import Base, check_replicas
from steelyard.api.entities.references import foreign_service, resolve
from steelyard.api.http.context import Call
from steelyard.api.http.errors import Invalid
from steelyard.schema.dataset import Dataset
from steelyard.schema.dependencies import data_mounts, naming
from steelyard.schema.entities import AnyEntity
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession, InferenceSessionSpec
from steelyard.schema.requests import EvaluationCreateRequest, EvaluationInferenceSessionRequest

OWN_INPUT = "dataset"
"""The name under which an evaluation's resource has its dataset among its inputs."""


async def evaluation(call: Call, request: EvaluationCreateRequest, base: Base) -> Sequence[AnyEntity]:
    dataset = await resolve(call, Dataset, request.dataset, "dataset")
    session = await _session(call, request)
    own = {"inferenceSession": session.dump(), "annotations": naming(dataset=dataset.name)}
    return [base.entity(Evaluation, {**request.dump(), **own})]


async def _session(call: Call, request: EvaluationCreateRequest) -> InferenceSessionSpec:
    if request.inferenceSession is not None:
        return await own_session(call, request.inferenceSession)
    field = "inferenceSessionReference"
    found = await resolve(call, InferenceSession, request.inferenceSessionReference or "", field)
    return InferenceSessionSpec(**{name: getattr(found, name) for name in InferenceSessionSpec.model_fields})


async def own_session(call: Call, request: EvaluationInferenceSessionRequest) -> InferenceSessionSpec:
    if request.expires is not None and request.expires <= call.now:
        field = "inferenceSession.expires"
        raise Invalid(f"{field}: {request.expires.isoformat()} is past", field=field)
    check_replicas(call, request.replicas, "inferenceSession.replicas")
    field = "inferenceSession.inferenceService"
    service = await resolve(call, InferenceService, request.inferenceService, field)
    if any(mount.name == OWN_INPUT for mount in data_mounts(service)):
        raise Invalid(
            f"{field}: a mount of its runner is called {OWN_INPUT!r}, as the evaluation's own dataset is",
            field=field,
        )
    content = {**request.dump(), "inferenceService": foreign_service(service).dump()}
    return InferenceSessionSpec.parse(content)
