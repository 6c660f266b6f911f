"""Puts an audit's reports and comparisons together as its page and audit.json show them."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.report.audit_inputs import AuditedReport, Baseline
from steelyard.report.audit_numbers import Digest, MetricNumbers
from steelyard.report.audit_wording import (
    answers_right,
    asked,
    compared,
    could_be_chance,
    interval_of_hundred,
)
from steelyard.report.comparison import Comparison, NotComparable, comparison_numbers
from steelyard.report.comparison_figures import changed_rows, differences, four_ways
from steelyard.report.document import flat, named, named_by_run, run_date
from steelyard.report.figures import intervals
from steelyard.report.page import FORMAT, TILES
from steelyard.report.results import Figure, Metric, Table
from steelyard.report.statistics import Estimate
from steelyard.report.wording import count

MODEL = "Model"
OURS = ".steelyard/"


@dataclass(frozen=True)
class Subject:
    """Which audit this is: ids as its resource has them."""

    id: str
    account: str
    procedure: str
    service: str


@dataclass(frozen=True)
class Requirement:
    """One report of the procedure, with what it was compared with."""

    number: int
    report: AuditedReport
    right: Estimate
    questions: int
    comparison: Comparison | NotComparable | None

    @property
    def names(self) -> dict[str, str]:
        return {**named_by_run(self.report.numbers.run), **self.report.numbers.names}

    @property
    def model_files(self) -> tuple[str, ...]:
        """What the model consists of; our record of where it came from is not part of it."""
        files = (each for each in self.report.numbers.evidence if each.what == MODEL)
        return tuple(sorted(each.sha256 for each in files if not each.path.startswith(OURS)))


@dataclass(frozen=True)
class Result:
    """A requirement in the first view."""

    title: str
    sentence: str
    interval: str
    asked: str
    comparison: str
    chance: str


@dataclass(frozen=True)
class Section:
    """A requirement with its numbers, further down."""

    number: int
    title: str
    headline: str
    facts: tuple[tuple[str, str], ...]
    tiles: tuple[Metric, ...]
    metrics: tuple[Metric, ...]
    figure: Figure | None
    comparison: str
    details: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    limits: tuple[str, ...]
    evidence: tuple[Digest, ...]
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class AuditDocument:
    """All that the page shows; `numbers` is audit.json."""

    title: str
    headline: str
    facts: tuple[tuple[str, str], ...]
    results: tuple[Result, ...]
    limits: tuple[str, ...]
    figure: Figure | None
    sections: tuple[Section, ...]
    provenance: tuple[tuple[str, str], ...]
    baseline_file: Digest | None
    numbers: dict[str, Any]


def make_document(
    subject: Subject, requirements: Sequence[Requirement], baseline: Baseline | None
) -> AuditDocument:
    against = baseline_name(baseline)
    system = named(requirements[0].names, "inferenceService")
    headline = _headline(system, requirements)
    limits = tuple(_limits(requirements, baseline))
    comparable = [(_title(r, requirements), r.comparison) for r in requirements]
    drawn = [(title, each) for title, each in comparable if isinstance(each, Comparison)]
    return AuditDocument(
        title=f"Audit: {headline}",
        headline=headline,
        facts=tuple(_facts(subject, requirements, baseline)),
        results=tuple(_result(r, requirements, against) for r in requirements),
        limits=limits,
        figure=differences(drawn) if drawn else None,
        sections=tuple(_section(r, requirements, against) for r in requirements),
        provenance=tuple(_provenance(subject, requirements, baseline)),
        baseline_file=baseline.file if baseline else None,
        numbers=_numbers(subject, requirements, baseline, headline, limits),
    )


def baseline_name(baseline: Baseline | None) -> str:
    return baseline.numbers.system.name if baseline else ""


def _headline(system: str, requirements: Sequence[Requirement]) -> str:
    if len(requirements) == 1:
        return f"{system} {answers_right(requirements[0].right)}."
    return f"{system} in {count(len(requirements))} tests."


def _title(requirement: Requirement, requirements: Sequence[Requirement]) -> str:
    return "Result" if len(requirements) == 1 else f"Test {requirement.number}"


def _facts(
    subject: Subject, requirements: Sequence[Requirement], baseline: Baseline | None
) -> Iterator[tuple[str, str]]:
    """The first view: which system, by which procedure, on what, when, against what."""
    names = requirements[0].names
    yield "System", named(names, "inferenceService")
    if names.get("model") or names.get("modelName"):
        yield "Model", named(names, "model")
    yield "Procedure", named({"id": subject.procedure}, "id")
    data = list(dict.fromkeys(named(r.names, "dataset") for r in requirements))
    yield "Data", ", ".join(data)
    dates = list(dict.fromkeys(date for r in requirements if (date := run_date(r.report.numbers.run))))
    if dates:
        yield "Run on", dates[0] if len(dates) == 1 else f"{len(dates)} occasions, {'; '.join(dates)}"
    yield "Compared with", _compared_with(baseline)
    yield "Account", subject.account


def _compared_with(baseline: Baseline | None) -> str:
    if baseline is None:
        return "nothing: no earlier audit was named"
    return f"{baseline.numbers.system.name}, audit {named({'id': baseline.numbers.audit}, 'id')}"


def _result(requirement: Requirement, requirements: Sequence[Requirement], against: str) -> Result:
    found = requirement.comparison
    sentence = answers_right(requirement.right)
    return Result(
        title=_title(requirement, requirements),
        sentence=sentence[0].upper() + sentence[1:],
        interval=interval_of_hundred(requirement.right),
        asked=asked(requirement.questions, requirement.right.n),
        comparison=compared(found, against) if found else "",
        chance=could_be_chance(found) if isinstance(found, Comparison) else "",
    )


def _limits(requirements: Sequence[Requirement], baseline: Baseline | None) -> Iterator[str]:
    yield "Whether this is good enough: that depends on the use. The page reports; it passes no judgement."
    if len(requirements) == 1:
        yield from requirements[0].report.numbers.limits
    else:
        yield "What each test does not say stands with it below."
    models = {r.model_files for r in requirements}
    if len(models) > 1:
        yield "The tests were not all answered by the same model files: see the digests of each."
    elif models == {()}:
        yield "No digest of the model's files was recorded: which model answered rests on its name alone."
    if baseline is None:
        return
    if models == {tuple(sorted(baseline.numbers.system.modelFiles))} != {()}:
        yield "Both audits are of the same model files, by SHA-256."
    made = sum(isinstance(r.comparison, Comparison) for r in requirements)
    if made:
        yield "The comparison covers chance in the choice of questions. It does not say why the systems differ."
    if made > 1:
        yield f"Of {made} comparisons, one may look like more than chance by chance alone."


def _section(requirement: Requirement, requirements: Sequence[Requirement], against: str) -> Section:
    numbers, found = requirement.report.numbers, requirement.comparison
    metrics = tuple(_metric(each) for each in numbers.metrics)
    shares = [each for each in metrics if each.unit == "share" and each.name != "ece"]
    several = f" in test {requirement.number}" if len(requirements) > 1 else ""
    title = f"How sure the main figures{several} are"
    return Section(
        number=requirement.number,
        title="The report" if len(requirements) == 1 else f"Test {requirement.number}",
        headline=numbers.headline,
        facts=tuple(_report_facts(requirement)),
        tiles=tuple(each for k, each in enumerate(metrics) if k == 0 or each.name in TILES),
        metrics=metrics,
        figure=intervals(title, shares) if shares else None,
        comparison=compared(found, against) if found else "",
        details=tuple(_comparison_facts(found)) if isinstance(found, Comparison) else (),
        tables=_tables(found),
        limits=tuple(numbers.limits),
        evidence=_evidence(requirement.report),
        settings=tuple(flat({key: value for key, value in numbers.run.items() if key != "schemaVersion"})),
    )


def _metric(numbers: MetricNumbers) -> Metric:
    return Metric(numbers.name, numbers.title, numbers.estimate, numbers.unit)


def _report_facts(requirement: Requirement) -> Iterator[tuple[str, str]]:
    numbers, names = requirement.report.numbers, requirement.names
    yield "Rubric", numbers.rubric
    yield "Data", f"{named(names, 'dataset')}, {asked(requirement.questions, requirement.right.n)}"
    unanswered = f", {count(numbers.rows.errors)} without an answer" if numbers.rows.errors else ""
    yield "Verified", f"{count(numbers.rows.present)} of {count(numbers.rows.total)} rows{unanswered}"
    if date := run_date(numbers.run):
        yield "Run on", date
    yield "Report", requirement.report.id
    yield "Evaluation", names.get("evaluation", "unknown")
    yield "Dataset", names.get("dataset", "unknown")


def _comparison_facts(found: Comparison) -> Iterator[tuple[str, str]]:
    left_out = f"; {count(found.left_out)} asked of one only are left out" if found.left_out else ""
    yield "Questions compared", f"{count(found.questions)}{left_out}"
    yield "How the interval was made", found.difference.method
    yield "How chance was judged", f"{found.chance.method}, two-sided, p = {found.chance.p:.3g}"


def _tables(found: Comparison | NotComparable | None) -> tuple[Table, ...]:
    if not isinstance(found, Comparison):
        return ()
    return (four_ways(found), *(changed_rows(each) for each in found.changes if each.total))


def _evidence(report: AuditedReport) -> tuple[Digest, ...]:
    """Data, model, outputs and the record of the run, then the report's own files and what is kept of them here."""
    went_in = [each for each in report.numbers.evidence if each.what != "Scores"]
    return (*went_in, *report.files, report.kept)


def _provenance(
    subject: Subject, requirements: Sequence[Requirement], baseline: Baseline | None
) -> Iterator[tuple[str, str]]:
    names = requirements[0].names
    yield "Audit", subject.id
    yield "Audit procedure", subject.procedure
    yield "Inference service", subject.service
    if names.get("model"):
        yield "Model", names["model"]
    if baseline:
        yield "Earlier audit", baseline.numbers.audit
        yield "Earlier inference service", baseline.numbers.system.inferenceService
        if baseline.numbers.system.model:
            yield "Earlier model", baseline.numbers.system.model


def _numbers(
    subject: Subject,
    requirements: Sequence[Requirement],
    baseline: Baseline | None,
    headline: str,
    limits: Sequence[str],
) -> dict[str, Any]:
    """audit.json: all that the page says, and what a later audit needs to compare itself with this one."""
    first = requirements[0]
    return {
        "schemaVersion": FORMAT,
        "audit": subject.id,
        "account": subject.account,
        "auditProcedure": subject.procedure,
        "headline": headline,
        "system": {
            "inferenceService": subject.service,
            "name": named(first.names, "inferenceService"),
            "model": first.names.get("model", ""),
            "modelName": first.names.get("modelName", ""),
            "modelFiles": list(first.model_files),
        },
        "baseline": baseline
        and {
            "audit": baseline.numbers.audit,
            "system": baseline.numbers.system.model_dump(),
            "file": baseline.file.model_dump(),
        },
        "limits": list(limits),
        "requirements": [_requirement_numbers(each) for each in requirements],
    }


def _requirement_numbers(requirement: Requirement) -> dict[str, Any]:
    report, numbers = requirement.report, requirement.report.numbers
    return {
        "report": report.id,
        "evaluation": requirement.names.get("evaluation", ""),
        "dataset": requirement.names.get("dataset", ""),
        "rubric": numbers.rubric,
        "datasetView": numbers.datasetView,
        "data": list(report.scored.data),
        "headline": numbers.headline,
        "questions": requirement.questions,
        "right": dataclasses.asdict(requirement.right),
        "rows": numbers.rows.model_dump(),
        "metrics": [each.model_dump() for each in numbers.metrics],
        "limits": numbers.limits,
        "run": numbers.run,
        "evidence": [each.model_dump() for each in _evidence(report)],
        "scores": report.kept.model_dump(),
        "comparison": comparison_numbers(requirement.comparison) if requirement.comparison else None,
    }
