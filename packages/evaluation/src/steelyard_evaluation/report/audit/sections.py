"""Sections of an audit's page, one per report: numbers, comparison row by row, digests, settings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard_evaluation.report.audit.inputs import AuditedReport
from steelyard_evaluation.report.audit.numbers import Digest
from steelyard_evaluation.report.audit.subject import Requirement, in_test
from steelyard_evaluation.report.audit.wording import chance_sentence, comparison_sentence, p_value, size_text
from steelyard_evaluation.report.comparison.figures import (
    changes_table,
    difference_figure,
    drawable,
    two_by_two,
)
from steelyard_evaluation.report.comparison.reports import Comparison, NotComparable
from steelyard_evaluation.report.evidence.audit_statement import report_page
from steelyard_evaluation.report.page.document import display_name, flat, run_date
from steelyard_evaluation.report.page.figures import intervals
from steelyard_evaluation.report.page.page import BEST_AT_ZERO, TILES
from steelyard_evaluation.report.results import Figure, Metric, Table
from steelyard_evaluation.report.status import row_noun
from steelyard_evaluation.report.wording import count

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ComparisonSection:
    """The comparison in a section; without figure and tables if the reports are not comparable."""

    sentence: str
    chance: str = ""
    figure: Figure | None = None
    two_by_two: Table | None = None
    changes: tuple[Table, ...] = ()
    methods: Pairs = ()


@dataclass(frozen=True)
class Section:
    """One report on the page."""

    number: int
    title: str
    report: str
    """Path of the report's own page, relative to this one."""
    headline: str
    facts: Pairs
    tiles: tuple[Metric, ...]
    metrics: tuple[Metric, ...]
    figure: Figure | None
    compared: ComparisonSection | None
    limits: tuple[str, ...]
    evidence: tuple[Digest, ...]
    identifiers: Pairs
    settings: Pairs


def make_section(
    requirement: Requirement, requirements: Sequence[Requirement], baseline_name: str
) -> Section:
    numbers, comparison = requirement.report.numbers, requirement.comparison
    metrics = tuple(entry.metric for entry in numbers.metrics)
    shares = [metric for metric in metrics if metric.unit == "share" and metric.name not in BEST_AT_ZERO]
    where = in_test(requirements, requirement)
    return Section(
        number=requirement.number,
        title=f"Test {requirement.number}" if where else "The report",
        report=report_page(requirement.report.id),
        headline=numbers.headline,
        facts=tuple(_facts(requirement)),
        tiles=tuple(metric for k, metric in enumerate(metrics) if k == 0 or metric.name in TILES),
        metrics=metrics,
        figure=intervals(f"Main metrics with 95 % confidence intervals{where}", shares) if shares else None,
        compared=_comparison_section(comparison, baseline_name, where, requirement.lead)
        if comparison
        else None,
        limits=tuple(numbers.limits),
        evidence=evidence(requirement.report),
        identifiers=tuple(_identifiers(requirement)),
        settings=tuple(flat({key: value for key, value in numbers.run.items() if key != "schemaVersion"})),
    )


def evidence(report: AuditedReport) -> tuple[Digest, ...]:
    """Return the digests of data, model, outputs and run, then of the report's own files and the scores kept here."""
    inputs = [entry for entry in report.numbers.evidence if entry.what != "Scores"]
    return (*inputs, *report.files, report.kept)


def _facts(requirement: Requirement) -> Iterator[tuple[str, str]]:
    numbers, names = requirement.report.numbers, requirement.names
    noun = row_noun(requirement.report.scores)
    yield f"{noun.capitalize()}s", size_text(requirement.questions, requirement.counts.present, noun)
    yield "Dataset", display_name(names, "dataset")
    yield "Rubric", numbers.rubric
    unanswered = f", {count(numbers.rows.errors)} without an answer" if numbers.rows.errors else ""
    yield "Verified", f"{count(numbers.rows.present)} of {count(numbers.rows.total)} rows{unanswered}"
    yield "Rows", str(requirement.counts)
    if date := run_date(numbers.run):
        yield "Run on", date


def _identifiers(requirement: Requirement) -> Iterator[tuple[str, str]]:
    yield "Report", requirement.report.id
    for key, title in (("evaluation", "Evaluation"), ("dataset", "Dataset"), ("model", "Model")):
        if requirement.names.get(key):
            yield title, requirement.names[key]


def _comparison_section(
    comparison: Comparison | NotComparable, baseline_name: str, where: str, lead: Metric
) -> ComparisonSection:
    sentence = comparison_sentence(comparison, baseline_name, lead.unit, lead.scale)
    if isinstance(comparison, NotComparable):
        return ComparisonSection(sentence)
    return ComparisonSection(
        sentence=sentence,
        chance=chance_sentence(comparison),
        figure=difference_figure([("Difference", comparison)], where) if drawable(comparison) else None,
        two_by_two=two_by_two(comparison) if comparison.binary else None,
        changes=tuple(
            changes_table(changes, comparison.binary) for changes in comparison.changes if changes.total
        ),
        methods=tuple(_methods(comparison)),
    )


def _methods(comparison: Comparison) -> Iterator[tuple[str, str]]:
    why = f"; {count(comparison.not_compared)} are not: not both have a row of them that counts"
    left_out = why if comparison.not_compared else ""
    yield "Questions compared", f"{count(comparison.questions)}{left_out}"
    yield "Rows now", str(comparison.system_rows)
    yield "Rows in the earlier audit", str(comparison.baseline_rows)
    yield "Method of the interval", comparison.difference.method
    test = comparison.p_value
    size = "" if test.p is None else f", two-sided, {p_value(test.p)}"
    yield "How chance was judged", f"{test.method}{size}"
