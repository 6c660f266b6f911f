"""Audits and their procedures.

When an Audit is created, each requirement is met by the newest Complete report of the account that has no modules and
views of its own, about an evaluation whose client leaves nothing out and changes nothing, or else by a report, and
where there is none by an evaluation too, that are created with the Audit, all or none. So they are seen, metered and
permitted like any other; the Audit waits for the reports, which are its preconditions.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

import orjson

from steelyard.api.commands.commands import derived_id
from steelyard.api.entities.creation import Base
from steelyard.api.entities.loading import parsed
from steelyard.api.entities.references import resolve
from steelyard.api.evaluations.creation import own_session
from steelyard.api.http.context import Call
from steelyard.api.http.errors import Conflict, Forbidden
from steelyard.api.reports.creation import about
from steelyard.schema.account import APIResource
from steelyard.schema.audit import Audit, AuditProcedure, AuditRequirement
from steelyard.schema.base import EntityIdentifier
from steelyard.schema.dataset import Dataset
from steelyard.schema.dependencies import BASELINE, naming
from steelyard.schema.entities import AnyEntity
from steelyard.schema.evaluation import Evaluation, EvaluationClientConfiguration
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.report import Report
from steelyard.schema.requests import (
    AuditCreateRequest,
    AuditProcedureCreateRequest,
    EvaluationInferenceSessionRequest,
)
from steelyard.views.fields import cursor
from steelyard.views.view import Query

E = TypeVar("E", Evaluation, Report)
_PAGE = 10
_DECISIVE = (
    "badRequestPolicy", "duplicateOutputPolicy", "missingOutputPolicy", "extraOptions", "inputPipeline",
)  # fmt: skip
"""The settings of an evaluation's client that decide what its outputs are."""


async def audit_procedure(
    call: Call, request: AuditProcedureCreateRequest, base: Base
) -> Sequence[AnyEntity]:
    for number, requirement in enumerate(request.requirements):
        await resolve(call, Dataset, requirement.dataset, f"requirements.{number}.dataset")
    return [base.entity(AuditProcedure, request, "Ready")]


async def audit(call: Call, request: AuditCreateRequest, base: Base) -> Sequence[AnyEntity]:
    procedure = await resolve(call, AuditProcedure, request.auditProcedure, "auditProcedure")
    service = await resolve(call, InferenceService, request.inferenceService, "inferenceService")
    content = {**request.dump(), "metadata": {}}
    about_it = {name: content.pop(name, None) for name in ("useCase", "author")}
    content["annotations"] = naming(auditProcedure=procedure.name, inferenceService=service.name, **about_it)
    if (baseline := content.pop("baseline", None)) is not None:
        await resolve(call, Audit, baseline, "baseline")
        content["annotations"].append({"key": BASELINE, "value": baseline})
    needs = _Needs(call, base, service)
    reports = [await needs.report(each) for each in procedure.requirements]
    unique = dict.fromkeys(reports)
    content["metadata"]["preconditions"] = [EntityIdentifier(id=id, kind="Report").dump() for id in unique]
    return [base.entity(Audit, content), *needs.new]


@dataclass
class _Needs:
    """What one Audit needs; `new` is what has to be created for it."""

    call: Call
    base: Base
    service: InferenceService
    new: list[AnyEntity] = field(default_factory=list)

    async def report(self, requirement: AuditRequirement) -> str:
        """Id of the report, now known, that meets the requirement."""
        evaluation = await self._evaluation(requirement.dataset)
        same = {"evaluation": evaluation.id, "rubric": requirement.rubric}
        known = [
            each for each in self.new if isinstance(each, Report) and same.items() <= each.dump().items()
        ]
        found = known[0] if known else await self._newest(Report, same, _is_plain)
        return found.id if found else self._create(Report, {**same, **about(evaluation)}).id

    async def _evaluation(self, dataset: str) -> Evaluation:
        for each in self.new:
            if isinstance(each, Evaluation) and each.dataset == dataset:
                return each
        same = {"dataset": dataset, "inferenceService": self.service.id}
        found = await self._newest(Evaluation, same, _is_strict)
        if found is not None:
            return found
        data = await resolve(self.call, Dataset, dataset, "auditProcedure")
        request = EvaluationInferenceSessionRequest(inferenceService=self.service.id)
        session = await own_session(self.call, request)
        content = {"inferenceSession": session.dump(), "annotations": naming(dataset=data.name)}
        return self._create(Evaluation, {"dataset": dataset, **content})

    async def _newest(self, kind: type[E], filters: dict[str, str], suits: Callable[[E], bool]) -> E | None:
        """The account's newest Complete one that the caller may use, and that suits."""
        wanted = {**filters, "account": self.base.account, "status": "Complete"}
        query = Query(
            kind.__name__,
            {name: (value,) for name, value in wanted.items()},
            scope=self.call.access.scope(_resource(kind), "consume"),
            order_by="creationTime",
            order="descending",
            limit=_PAGE,
        )
        while found := await self.call.api.entities.query(query):
            for json in found:
                with suppress(Conflict):  # one that an older version made answers nothing now
                    entity: E = parsed(kind.__name__, json)  # type: ignore[assignment]
                    if suits(entity):
                        return entity
            query = replace(query, after=cursor(orjson.loads(found[-1]), kind.__name__, query.order_by))
        return None

    def _create(self, kind: type[E], content: dict[str, object]) -> E:
        resource = _resource(kind)
        if not self.call.access.allows(resource, "create", self.base.account, ""):
            raise Forbidden(
                f"auditProcedure: a new {kind.__name__} is needed, and the token lacks {resource}/create for the "
                f"account {self.base.account}",
                field="auditProcedure",
            )
        id = derived_id("audit", self.base.id, str(len(self.new)))
        entity = Base(id, self.base.account, self.base.now).entity(kind, content)
        self.new.append(entity)
        return entity


def _is_plain(report: Report) -> bool:
    """Scored as the requirement says: one with modules or views of its own answers another question."""
    return not report.modules and report.datasetView is None and report.evaluationView is None


def _is_strict(evaluation: Evaluation) -> bool:
    """Asked as one that the audit would make: every row, as it is, and none left out. How patiently does not matter."""
    standard = EvaluationClientConfiguration()
    return all(getattr(evaluation.client, name) == getattr(standard, name) for name in _DECISIVE)


def _resource(kind: type[Evaluation | Report]) -> APIResource:
    return "evaluations" if kind is Evaluation else "reports"
