"""Audits and audit procedures from their create requests.

An Audit needs one report for each requirement of its procedure: the newest Complete one of the account, without modules
and views of its own, about an evaluation whose client neither leaves rows out nor changes them. What is missing, a
report or its evaluation too, is created with the Audit, all or none: so it is seen, counted against quotas and
permitted like any other. The Audit waits for the reports, which are its preconditions.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

import orjson

from steelyard.api.commands.commands import derive_id
from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.loading import parse
from steelyard.api.entities.references import resolve
from steelyard.api.evaluations.creation import own_session
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden
from steelyard.api.reports.creation import evaluation_fields
from steelyard.api.reports.rubric_columns import check_rubric_columns
from steelyard.api.reports.rubric_names import check_rubric
from steelyard.views.fields import cursor
from steelyard.views.view import Query
from steelyard_schema.account import APIResource
from steelyard_schema.audit import Audit, AuditProcedure, AuditRequirement
from steelyard_schema.base import EntityIdentifier
from steelyard_schema.dataset import Dataset
from steelyard_schema.dependencies import BASELINE, naming
from steelyard_schema.entities import AnyEntity
from steelyard_schema.evaluation import Evaluation, EvaluationClientConfiguration
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.report import Report
from steelyard_schema.requests import (
    AuditCreateRequest,
    AuditProcedureCreateRequest,
    EvaluationInferenceSessionRequest,
)

E = TypeVar("E", Evaluation, Report)
_PAGE = 10
_DECISIVE = (
    "badRequestPolicy", "duplicateOutputPolicy", "missingOutputPolicy", "extraOptions", "inputPipeline",
)  # fmt: skip
"""Settings of an evaluation's client that decide what its outputs are."""


async def audit_procedure(
    context: RequestContext, request: AuditProcedureCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    content = request.dump()
    for number, requirement in enumerate(request.requirements):
        check_rubric(requirement.rubric, f"requirements.{number}.rubric")
        dataset = await resolve(context, Dataset, requirement.dataset, f"requirements.{number}.dataset")
        await check_rubric_columns(context, requirement.rubric, dataset, f"requirements.{number}.rubric")
        content["requirements"][number]["dataset"] = dataset.id
    return [new.entity(AuditProcedure, content, "Ready")]


async def audit(context: RequestContext, request: AuditCreateRequest, new: NewEntity) -> Sequence[AnyEntity]:
    procedure = await resolve(context, AuditProcedure, request.auditProcedure, "auditProcedure")
    service = await resolve(context, InferenceService, request.inferenceService, "inferenceService")
    content = {**request.dump(), "inferenceService": service.id, "metadata": {}}
    texts = {name: content.pop(name, None) for name in ("useCase", "author")}
    content["annotations"] = naming(auditProcedure=procedure.name, inferenceService=service.name, **texts)
    if (baseline := content.pop("baseline", None)) is not None:
        await resolve(context, Audit, baseline, "baseline")
        content["annotations"].append({"key": BASELINE, "value": baseline})
    dependencies = _AuditDependencies(context, new, service)
    reports = [await dependencies.report(requirement) for requirement in procedure.requirements]
    unique = dict.fromkeys(reports)
    content["metadata"]["preconditions"] = [EntityIdentifier(id=id, kind="Report").dump() for id in unique]
    return [new.entity(Audit, content), *dependencies.created]


@dataclass
class _AuditDependencies:
    """Finds the reports and evaluations that one Audit needs, and creates those that are missing."""

    context: RequestContext
    audit: NewEntity
    service: InferenceService
    created: list[AnyEntity] = field(default_factory=list)

    async def report(self, requirement: AuditRequirement) -> str:
        """Return the id of a report that meets the requirement."""
        evaluation = await self._evaluation(requirement.dataset)
        fields = {"evaluation": evaluation.id, "rubric": requirement.rubric}
        for entity in self.created:
            if isinstance(entity, Report) and fields.items() <= entity.dump().items():
                return entity.id
        newest = await self._newest(Report, fields, _is_plain)
        return newest.id if newest else self._create(Report, {**fields, **evaluation_fields(evaluation)}).id

    async def _evaluation(self, dataset: str) -> Evaluation:
        for entity in self.created:
            if isinstance(entity, Evaluation) and entity.dataset == dataset:
                return entity
        fields = {"dataset": dataset, "inferenceService": self.service.id}
        newest = await self._newest(Evaluation, fields, _is_strict)
        if newest is not None:
            return newest
        data = await resolve(self.context, Dataset, dataset, "auditProcedure")
        request = EvaluationInferenceSessionRequest(inferenceService=self.service.id)
        session, secrets = await own_session(self.context, request)
        annotations = [*naming(dataset=data.name), *secrets]
        content = {"inferenceSession": session.dump(), "annotations": annotations}
        return self._create(Evaluation, {"dataset": dataset, **content})

    async def _newest(self, kind: type[E], filters: dict[str, str], suits: Callable[[E], bool]) -> E | None:
        """Return the account's newest Complete entity that the caller may use and that suits."""
        conditions = {**filters, "account": self.audit.account, "status": "Complete"}
        query = Query(
            kind.__name__,
            {name: (value,) for name, value in conditions.items()},
            scope=self.context.access.scope(_resource(kind), "consume"),
            order_by="creationTime",
            order="descending",
            limit=_PAGE,
        )
        while page := await self.context.api.entities.query(query):
            for json in page:
                with suppress(
                    Conflict
                ):  # an entity that only an older schema accepts can be used for nothing
                    entity: E = parse(kind.__name__, json)  # type: ignore[assignment]
                    if suits(entity):
                        return entity
            query = replace(query, after=cursor(orjson.loads(page[-1]), kind.__name__, query.order_by))
        return None

    def _create(self, kind: type[E], content: dict[str, object]) -> E:
        resource = _resource(kind)
        if not self.context.access.allows(resource, "create", self.audit.account, ""):
            raise Forbidden(
                f"auditProcedure: a new {kind.__name__} is needed, and the token lacks {resource}/create for the "
                f"account {self.audit.account}",
                field="auditProcedure",
            )
        id = derive_id("audit", self.audit.id, str(len(self.created)))
        entity = NewEntity(id, self.audit.account, self.audit.now).entity(kind, content)
        self.created.append(entity)
        return entity


def _is_plain(report: Report) -> bool:
    """Return whether a report scores as the requirement says: modules or views of its own change the question."""
    return not report.modules and report.datasetView is None and report.evaluationView is None


def _is_strict(evaluation: Evaluation) -> bool:
    """Return whether an evaluation asks every row, unchanged; its time-outs and retries do not matter."""
    standard = EvaluationClientConfiguration()
    return all(getattr(evaluation.client, name) == getattr(standard, name) for name in _DECISIVE)


def _resource(kind: type[Evaluation | Report]) -> APIResource:
    return "evaluations" if kind is Evaluation else "reports"
