"""audit.json: the content of the page, and what a later audit needs for a comparison with this one."""

import dataclasses
from collections.abc import Sequence

from steelyard_common.types import Json
from steelyard_evaluation.report.audit.inputs import Baseline
from steelyard_evaluation.report.audit.sections import evidence
from steelyard_evaluation.report.audit.subject import Requirement, Subject
from steelyard_evaluation.report.comparison.reports import comparison_numbers
from steelyard_evaluation.report.page.document import display_name
from steelyard_evaluation.report.page.page import FORMAT


def audit_json(subject: Subject, requirements: Sequence[Requirement], baseline: Baseline | None) -> Json:
    first = requirements[0]
    return {
        "schemaVersion": FORMAT,
        "audit": subject.id,
        "account": subject.account,
        "auditProcedure": subject.procedure,
        "auditProcedureName": subject.procedure_name,
        "useCase": subject.use_case,
        "author": subject.author,
        "system": {
            "inferenceService": subject.service,
            "name": display_name(first.names, "inferenceService"),
            "model": first.names.get("model", ""),
            "modelName": first.names.get("modelName", ""),
            "modelFiles": list(first.model_files),
        },
        "baseline": {
            "audit": baseline.numbers.audit,
            "system": baseline.numbers.system.model_dump(),
            "file": baseline.file.model_dump(),
        }
        if baseline
        else None,
        "requirements": [_requirement(requirement) for requirement in requirements],
    }


def _requirement(requirement: Requirement) -> Json:
    report, numbers = requirement.report, requirement.report.numbers
    return {
        "report": report.id,
        "evaluation": requirement.names.get("evaluation", ""),
        "dataset": requirement.names.get("dataset", ""),
        "rubric": numbers.rubric,
        "datasetView": numbers.datasetView,
        "data": list(report.comparison_report.data),
        "headline": numbers.headline,
        "questions": requirement.questions,
        "result": dataclasses.asdict(requirement.lead) | {"rightOrWrong": requirement.right_or_wrong},
        "counts": requirement.counts.numbers(),
        "rows": numbers.rows.model_dump(),
        "metrics": [metric.model_dump() for metric in numbers.metrics],
        "limits": numbers.limits,
        "run": numbers.run,
        "evidence": [entry.model_dump() for entry in evidence(report)],
        "scores": report.kept.model_dump(),
        "comparison": comparison_numbers(requirement.comparison) if requirement.comparison else None,
    }
