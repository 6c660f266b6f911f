"""Reports from their create requests: dataset, service and model follow from the evaluation."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.loading import parse
from steelyard.api.entities.references import resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.api.reports.rubric_columns import check_rubric_columns
from steelyard.api.reports.rubric_names import check_rubric
from steelyard_schema.data import DataView
from steelyard_schema.dataset import Dataset
from steelyard_schema.dependencies import dependency_names, naming
from steelyard_schema.entities import AnyEntity
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.module import Module
from steelyard_schema.report import Report
from steelyard_schema.requests import ReportCreateRequest


async def report(
    context: RequestContext, request: ReportCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    if not request.modules:  # which may hold a rubric of any name
        check_rubric(request.rubric, "rubric")
    evaluation = await resolve(context, Evaluation, request.evaluation, "evaluation")
    if not request.modules and request.datasetView is None:
        await _check_columns(context, request.rubric, evaluation)
    named = [(module, f"modules.{number}") for number, module in enumerate(request.modules)]
    modules = [(await resolve(context, Module, module, field)).id for module, field in named]
    content = {**request.dump(), **evaluation_fields(evaluation), "modules": modules}
    if request.datasetView is not None:
        views: Sequence[DataView] = ()
        if not isinstance(request.datasetView, DataView):  # it is named by its id
            views = (await resolve(context, Dataset, evaluation.dataset, "datasetView")).views
        content["datasetView"] = _view(request.datasetView, views, "datasetView")
    if request.evaluationView is not None:
        views = evaluation.inferenceSession.inferenceService.outputViews
        content["evaluationView"] = _view(request.evaluationView, views, "evaluationView")
    return [new.entity(Report, content)]


async def _check_columns(context: RequestContext, rubric: str, evaluation: Evaluation) -> None:
    json = await context.api.entities.get("Dataset", evaluation.dataset)
    dataset = None if json is None else parse("Dataset", json)
    # Who may not see the dataset is told nothing of its columns; the step checks them.
    if isinstance(dataset, Dataset) and context.access.allows("datasets", "get", dataset.account, dataset.id):
        await check_rubric_columns(context, rubric, dataset, "rubric")


def evaluation_fields(evaluation: Evaluation) -> dict[str, object]:
    """Return the fields of a report that follow from its evaluation."""
    service = evaluation.inferenceSession.inferenceService
    model, data = service.model, dependency_names(evaluation).get("dataset")
    names = naming(dataset=data, inferenceService=service.name, model=model.name if model else None)
    content: dict[str, object] = {"dataset": evaluation.dataset, "inferenceService": service.id}
    content["annotations"] = names
    return content | ({"model": model.id} if model else {})


def _view(view: str | DataView, views: Sequence[DataView], field: str) -> dict[str, object]:
    """Return a view that is given, or that is named by its id."""
    if isinstance(view, DataView):
        return view.dump()
    for candidate in views:
        if candidate.id == view:
            return candidate.dump()
    ids = [candidate.id for candidate in views]
    raise Invalid(f"{field}: there is no view {view!r}; there are {ids}", field=field)
