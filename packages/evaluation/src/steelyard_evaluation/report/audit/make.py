"""Makes an audit: reads the reports of a procedure, compares them with those of an earlier audit, makes one page.

The step `run_audit` calls `make_audit`. Nothing here reads the time, the host or a resource, so that the same reports
give the same bytes.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from steelyard_evaluation.report.audit.audit_json import audit_json
from steelyard_evaluation.report.audit.document import make_document
from steelyard_evaluation.report.audit.inputs import AuditedReport, Baseline, read_baseline, read_report
from steelyard_evaluation.report.audit.numbers import EarlierReport, MetricNumbers
from steelyard_evaluation.report.audit.subject import Requirement, Subject
from steelyard_evaluation.report.comparison.reports import Comparison, NotComparable, ScoredReport, compare
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.evidence.audit_statement import report_page
from steelyard_evaluation.report.page.page import numbers_json, render_page
from steelyard_evaluation.report.results import Metric
from steelyard_evaluation.report.statistics.reducers import right_or_wrong
from steelyard_evaluation.report.status import count_statuses, score_values, without_left_out
from steelyard_evaluation.storage.store import Store

CLOSE = 1e-9
"""Greatest difference between a report's number and the mean of its scores that is rounding."""


@dataclass(frozen=True)
class Request:
    """Request for one audit: its ids, the stores of the reports by id, and the output of an earlier audit."""

    subject: Subject
    reports: Mapping[str, Store] = field(default_factory=dict)
    baseline: Store | None = None


@dataclass(frozen=True)
class Audit:
    """An audit: index.html, audit.json, and the files of the scores to keep, by their paths in the output."""

    page: bytes
    numbers: bytes
    scores: Mapping[str, Path]
    headline: str
    report_pages: Mapping[str, bytes] = field(default_factory=dict)
    """Pages of its reports, by their paths in the output: index.html links to them."""


async def make_audit(request: Request, folder: Path) -> Audit:
    """Return the audit; `folder` is scratch space. Raises ReportFailed."""
    if not request.reports:
        raise ReportFailed("NothingToAudit", "there is no report to put into the audit")
    reports = [await read_report(key, store, folder) for key, store in request.reports.items()]
    for report in reports:
        _check_system(report, request.subject)
    # By what they are about, not by the order of the request: equal audits have equal bytes.
    reports.sort(
        key=lambda report: (report.numbers.names.get("dataset", ""), report.numbers.rubric, report.id)
    )
    baseline = await read_baseline(request.baseline) if request.baseline else None
    comparisons = await _compare_with_baseline(reports, baseline, request.subject, folder)
    requirements = [
        _requirement(number, report, comparisons.get(report.id)) for number, report in enumerate(reports, 1)
    ]
    document = await asyncio.to_thread(make_document, request.subject, requirements, baseline)
    numbers = {"headline": document.headline, "limits": list(document.limits)}
    numbers |= audit_json(request.subject, requirements, baseline)
    page = await asyncio.to_thread(render_page, "audit", document.title, numbers, document=document)
    scores = {report.kept.path: folder / report.kept.path for report in reports}
    pages = {report_page(report.id): report.page for report in reports}
    return Audit(page, numbers_json(numbers), scores, document.headline, pages)


def _check_system(report: AuditedReport, subject: Subject) -> None:
    """Raise ReportFailed for a report about another inference service than the audit's."""
    service = report.numbers.names.get("inferenceService", subject.service)
    if service != subject.service:
        message = (
            f"report {report.id} is about the inference service {service}, the audit about {subject.service}"
        )
        raise ReportFailed("WrongSystem", message)


def _requirement(
    number: int, report: AuditedReport, comparison: Comparison | NotComparable | None
) -> Requirement:
    kept = without_left_out(report.scores)
    questions, graded = (int(pc.count_distinct(rows["_index_"]).as_py()) for rows in (report.scores, kept))
    if not report.numbers.metrics:
        raise ReportFailed("BadReport", f"report {report.id} has no number: its metrics are empty")
    lead = report.numbers.metrics[0].metric
    right = _right_questions(kept) if _is_share_of_right(kept, lead) else None
    return Requirement(
        number, report, lead, questions, graded, right, count_statuses(report.scores), comparison
    )


def _right_questions(kept: pa.Table) -> int:
    """Return the number of questions whose every answer is right."""
    least = kept.group_by("_index_").aggregate([("correct", "min")])
    return int(pc.sum(least["correct_min"]).as_py() or 0)


def _is_share_of_right(kept: pa.Table, lead: Metric) -> bool:
    """Return True if each answer is right or wrong, and the report's first number is the share of right ones."""
    if lead.unit != "share" or lead.estimate.value is None or not right_or_wrong(kept):
        return False
    # The first number of a rubric may be another one, such as a macro average, though its answers are right
    # or wrong.
    return abs(float(score_values(kept).mean()) - lead.estimate.value) < CLOSE


async def _compare_with_baseline(
    reports: Sequence[AuditedReport], baseline: Baseline | None, subject: Subject, folder: Path
) -> dict[str, Comparison | NotComparable]:
    if baseline is None:
        return {}
    if baseline.numbers.audit == subject.id:
        raise ReportFailed("BadBaseline", f"audit {subject.id} cannot be its own baseline")
    partners = counterparts(
        [(report.id, report.comparison_report) for report in reports], baseline.numbers.requirements
    )
    comparisons: dict[str, Comparison | NotComparable] = {}
    for report in reports:
        partner = partners.get(report.id)
        if partner is None:
            comparisons[report.id] = NotComparable(
                "the earlier audit has no report that corresponds to this one"
            )
        elif lacking := _without_number(partner.metrics, report.numbers.metrics):
            comparisons[report.id] = NotComparable(f"{lacking} has no number")
        else:
            # One earlier report at a time: its scores are read when its turn comes, and not kept.
            earlier = await baseline.make_scored_report(partner, folder)
            comparisons[report.id] = await asyncio.to_thread(compare, earlier, report.comparison_report)
    return comparisons


def _without_number(earlier: Sequence[MetricNumbers], now: Sequence[MetricNumbers]) -> str:
    """Return which of two reports has no number, since none of its answers could be read; empty if both have one."""
    for report, metrics in (("the earlier report", earlier), ("this report", now)):
        if metrics and metrics[0].value is None:
            return report
    return ""


def counterparts(
    reports: Sequence[tuple[str, ScoredReport]], earlier: Sequence[EarlierReport]
) -> dict[str, EarlierReport]:
    """Return the earlier report that each report is compared with, by the report's id.

    It is one of the same data and rubric; if there is none, one that is left with the same rubric, then one of the same
    data: the comparison says what differs.
    """
    selected: dict[str, EarlierReport] = {}
    left = list(earlier)
    for is_partner in (
        lambda report, earlier: _same_rubric(report, earlier) and _same_data(report, earlier),
        _same_rubric,
        _same_data,
    ):
        for identity, report in reports:
            partner = next((other for other in left if is_partner(report, other)), None)
            if identity not in selected and partner is not None:
                selected[identity] = partner
                # An earlier report is the partner of one report: two differences from it would be one finding
                # shown twice.
                left.remove(partner)
    return selected


def _same_rubric(report: ScoredReport, earlier: EarlierReport) -> bool:
    return report.rubric == earlier.rubric


def _same_data(report: ScoredReport, earlier: EarlierReport) -> bool:
    return report.data == tuple(sorted(earlier.data))
