"""Measurements and safety cases from their create requests, with their methods embedded."""

from collections.abc import Sequence

from steelyard.api.analyses.data import analysis_data
from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.references import foreign_method, resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard_schema.base import SchemaModel
from steelyard_schema.dataset import Dataset
from steelyard_schema.entities import ENTITIES, AnyEntity
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.measurement import Measurement
from steelyard_schema.method import Method
from steelyard_schema.model import Model
from steelyard_schema.requests import AnalysisCreateRequest
from steelyard_schema.safety_case import SafetyCase
from steelyard_schema.secrets import list_method_secrets, secret_annotations

_SCOPE: dict[str, type[Dataset | Evaluation | InferenceService | Model]] = {
    "dataset": Dataset,
    "evaluation": Evaluation,
    "inferenceService": InferenceService,
    "model": Model,
}
_NEEDED = {
    "Evaluation": ("evaluation", "inferenceService", "dataset"),
    "InferenceService": ("inferenceService",),
}
"""Fields of the scope that a method needs, by the method's own scope."""


async def measurement(
    context: RequestContext, request: AnalysisCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    method = await _method(context, request, "Measurement")
    return [new.entity(Measurement, await _content(context, request, method, method.output.measurement))]


async def safety_case(
    context: RequestContext, request: AnalysisCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    method = await _method(context, request, "SafetyCase")
    return [new.entity(SafetyCase, await _content(context, request, method, method.output.safetyCase))]


async def _method(context: RequestContext, request: AnalysisCreateRequest, output: str) -> Method:
    method = await resolve(context, Method, request.method, "method")
    if method.output.kind != output:
        raise Invalid(f"method: {method.name} makes a {method.output.kind}, not a {output}", field="method")
    return method


async def _content(
    context: RequestContext, request: AnalysisCreateRequest, method: Method, output: SchemaModel | None
) -> dict[str, object]:
    service = await _check_scope(context, request, method)
    # One that the method does not declare is taken, as with Dyff: the log of the run says so.
    _check_once([argument.keyword for argument in request.arguments], "arguments")
    described = output.dump() if output else {}
    inputs = await _inputs(context, request, method)
    data = await analysis_data(context, method, service)
    secrets = secret_annotations(list_method_secrets(method))
    own = {"inputs": inputs, "method": foreign_method(method).dump(), "data": data, "annotations": secrets}
    return {**described, **request.dump(), **own}


async def _check_scope(
    context: RequestContext, request: AnalysisCreateRequest, method: Method
) -> InferenceService | None:
    """Return the inference service of the scope. Raises Invalid for a scope that does not fit the method."""
    for name in _NEEDED[method.scope]:
        if getattr(request.scope, name) is None:
            raise Invalid(
                f"scope.{name}: is missing: the method's scope is {method.scope}", field=f"scope.{name}"
            )
    service = None
    for name, kind in _SCOPE.items():
        if (id := getattr(request.scope, name)) is not None:
            entity = await resolve(context, kind, id, f"scope.{name}")
            service = entity if isinstance(entity, InferenceService) else service
            if isinstance(entity, Evaluation):
                _check_evaluation(request, entity)
    return service


def _check_evaluation(request: AnalysisCreateRequest, evaluation: Evaluation) -> None:
    """Raise Invalid where the scope names something else than its evaluation: scores would be another service's."""
    own = {"dataset": evaluation.dataset, "inferenceService": evaluation.inferenceSession.inferenceService.id}
    for name, id in own.items():
        if getattr(request.scope, name) not in {None, id}:
            raise Invalid(f"scope.{name}: should be that of the evaluation, {id}", field=f"scope.{name}")


def _check_once(keywords: Sequence[str], name: str) -> None:
    """Raise Invalid for a keyword that is given twice: the method would get one of the two."""
    for number, keyword in enumerate(keywords):
        if keyword in keywords[:number]:
            field = f"{name}.{number}.keyword"
            raise Invalid(f"{field}: {keyword!r} is given twice", field=field)


async def _inputs(
    context: RequestContext, request: AnalysisCreateRequest, method: Method
) -> list[dict[str, str]]:
    kinds = {definition.keyword: definition.kind for definition in method.inputs}
    inputs: list[dict[str, str]] = []
    _check_once([argument.keyword for argument in request.inputs], "inputs")
    for number, argument in enumerate(request.inputs):
        field = f"inputs.{number}"
        if argument.keyword not in kinds:
            known = ", ".join(kinds) or "none"
            raise Invalid(
                f"{field}.keyword: {argument.keyword!r} is not an input of the method; there are {known}",
                field=f"{field}.keyword",
            )
        kind = ENTITIES[kinds.pop(argument.keyword)]
        entity = await resolve(context, kind, argument.entity, f"{field}.entity")
        inputs.append({"keyword": argument.keyword, "entity": entity.id})
    if kinds:
        raise Invalid(f"inputs: {', '.join(kinds)} is missing, which the method needs", field="inputs")
    return inputs
