"""Reports: what they are about follows from the evaluation; views may be named by their ids."""

from collections.abc import Sequence

from steelyard.api.entities.creation import Base
from steelyard.api.entities.references import resolve
from steelyard.api.http.context import Call
from steelyard.api.http.errors import Invalid
from steelyard.schema.data import DataView
from steelyard.schema.dataset import Dataset
from steelyard.schema.dependencies import names_of, naming
from steelyard.schema.entities import AnyEntity
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.module import Module
from steelyard.schema.report import Report
from steelyard.schema.requests import ReportCreateRequest


async def report(call: Call, request: ReportCreateRequest, base: Base) -> Sequence[AnyEntity]:
    evaluation = await resolve(call, Evaluation, request.evaluation, "evaluation")
    for number, module in enumerate(request.modules):
        await resolve(call, Module, module, f"modules.{number}")
    content = {**request.dump(), **about(evaluation)}
    if request.datasetView is not None:
        content["datasetView"] = await _dataset_view(call, request.datasetView, evaluation.dataset)
    if request.evaluationView is not None:
        views = evaluation.inferenceSession.inferenceService.outputViews
        content["evaluationView"] = _view(request.evaluationView, views, "evaluationView")
    return [base.entity(Report, content)]


def about(evaluation: Evaluation) -> dict[str, object]:
    """What a report of the evaluation is about."""
    service = evaluation.inferenceSession.inferenceService
    model, data = service.model, names_of(evaluation).get("dataset")
    names = naming(dataset=data, inferenceService=service.name, model=model.name if model else None)
    content: dict[str, object] = {"dataset": evaluation.dataset, "inferenceService": service.id}
    content["annotations"] = names
    return content | ({"model": model.id} if model else {})


async def _dataset_view(call: Call, wanted: str | DataView, dataset: str) -> dict[str, object]:
    if isinstance(wanted, DataView):
        return wanted.dump()
    return _view(wanted, (await resolve(call, Dataset, dataset, "datasetView")).views, "datasetView")


def _view(wanted: str | DataView, views: Sequence[DataView], field: str) -> dict[str, object]:
    if isinstance(wanted, DataView):
        return wanted.dump()
    for view in views:
        if view.id == wanted:
            return view.dump()
    raise Invalid(
        f"{field}: there is no view {wanted!r}; there are {[view.id for view in views]}", field=field
    )
