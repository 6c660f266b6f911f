"""The content of an audit's page: its first view, and a section for each report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard_evaluation.report.audit.inputs import Baseline
from steelyard_evaluation.report.audit.numbers import Digest
from steelyard_evaluation.report.audit.sections import Section, make_section
from steelyard_evaluation.report.audit.subject import Requirement, Subject
from steelyard_evaluation.report.audit.wording import (
    chance_sentence,
    comparison_sentence,
    interval_text,
    result_clause,
    size_text,
)
from steelyard_evaluation.report.comparison.figures import difference_figure, drawable
from steelyard_evaluation.report.comparison.reports import Comparison
from steelyard_evaluation.report.page.document import display_name, run_date
from steelyard_evaluation.report.results import Figure
from steelyard_evaluation.report.status import row_noun
from steelyard_evaluation.report.wording import count

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Result:
    """A report in the first view: its result in sentences."""

    title: str
    sentence: str
    interval: str
    size: str
    comparison: str
    chance: str


@dataclass(frozen=True)
class AuditDocument:
    """All that the page shows. `figure` shows several comparisons side by side."""

    headline: str
    facts: tuple[tuple[str, str], ...]
    results: tuple[Result, ...]
    limits: tuple[str, ...]
    figure: Figure | None
    sections: tuple[Section, ...]
    provenance: tuple[tuple[str, str], ...]
    baseline_file: Digest | None

    @property
    def title(self) -> str:
        return f"Audit: {self.headline}"


def make_document(
    subject: Subject, requirements: Sequence[Requirement], baseline: Baseline | None
) -> AuditDocument:
    system = display_name(requirements[0].names, "inferenceService")
    # An earlier audit of the same system has the same name: without the addition a reader could not distinguish the
    # two.
    if baseline is None:
        baseline_name = ""
    else:
        name = baseline.numbers.system.name
        baseline_name = f"{name} in the earlier audit" if name == system else name
    drawn = [
        (f"Test {r.number}", r.comparison)
        for r in requirements
        if isinstance(r.comparison, Comparison) and drawable(r.comparison)
    ]
    if len(requirements) == 1:
        only = requirements[0]
        noun = row_noun(only.report.scores)
        headline = f"{system} {result_clause(only.lead, only.right, only.graded, noun)}."
    else:
        headline = f"{system} in {count(len(requirements))} tests."
    return AuditDocument(
        headline=headline,
        facts=tuple(_facts(subject, requirements, baseline)),
        results=tuple(_result(r, requirements, baseline_name) for r in requirements),
        limits=tuple(_limits(requirements, baseline)),
        figure=difference_figure(drawn, " in each test") if len(drawn) > 1 else None,
        sections=tuple(make_section(r, requirements, baseline_name) for r in requirements),
        provenance=tuple(_provenance(subject, requirements, baseline)),
        baseline_file=baseline.file if baseline else None,
    )


def _facts(
    subject: Subject, requirements: Sequence[Requirement], baseline: Baseline | None
) -> Iterator[tuple[str, str]]:
    """Yield which system was audited, by which procedure, on which data, when, and against which baseline."""
    names = requirements[0].names
    yield "System", display_name(names, "inferenceService")
    if names.get("model") or names.get("modelName"):
        yield "Model", display_name(names, "model")
    yield "Compared with", _comparison_text(baseline)
    dates = list(dict.fromkeys(date for r in requirements if (date := run_date(r.report.numbers.run))))
    if dates:
        yield "Run on", dates[0] if len(dates) == 1 else f"{len(dates)} occasions: {'; '.join(dates)}"
    yield "Procedure", subject.procedure_name or display_name({"id": subject.procedure}, "id")
    yield "Use case", subject.use_case or NOT_STATED
    yield "Author", subject.author or NOT_STATED
    yield "Account", subject.account


def _comparison_text(baseline: Baseline | None) -> str:
    if baseline is None:
        return "nothing: no earlier audit was named"
    system = baseline.numbers.system
    model = f" (model {system.modelName})" if system.modelName else ""
    return f"{system.name}{model}, audit {display_name({'id': baseline.numbers.audit}, 'id')}"


def _result(requirement: Requirement, requirements: Sequence[Requirement], baseline_name: str) -> Result:
    difference = requirement.comparison
    noun = row_noun(requirement.report.scores)
    lead = requirement.lead
    sentence = result_clause(lead, requirement.right, requirement.graded, noun)
    data = f"Test {requirement.number}: dataset {display_name(requirement.names, 'dataset')}"
    return Result(
        title=data if len(requirements) > 1 else "Result",
        sentence=sentence[0].upper() + sentence[1:],
        interval=interval_text(lead, requirement.right_or_wrong, requirement.graded),
        size=_size_text(requirement, noun),
        comparison=comparison_sentence(difference, baseline_name, lead.unit, lead.scale)
        if difference
        else "",
        chance=chance_sentence(difference) if isinstance(difference, Comparison) else "",
    )


def _size_text(requirement: Requirement, noun: str) -> str:
    """Return the number of questions, with the rows by status where some were not scored."""
    counts = requirement.counts
    questions = size_text(requirement.questions, counts.present, noun)
    return f"{questions} ({counts})" if counts.failed or counts.left_out else questions


def _limits(requirements: Sequence[Requirement], baseline: Baseline | None) -> Iterator[str]:
    yield "Whether this is good enough: that depends on the use. The page reports; it passes no judgement."
    if len(requirements) == 1:
        yield from requirements[0].report.numbers.limits
    else:
        yield "What each test does not say stands with it below."
    models = {r.model_files for r in requirements}
    # An endpoint may have been given other weights between two evaluations of one procedure.
    if len(models) > 1:
        yield "The tests were not all answered by the same model files: see the digests of each."
    elif models == {()}:
        yield "No digest of the model's files was recorded: which model answered rests on its name alone."
    if baseline is None:
        return
    if models == {tuple(sorted(baseline.numbers.system.modelFiles))} != {()}:
        yield "Both audits are of the same model files, by SHA-256."
    compared = sum(isinstance(r.comparison, Comparison) for r in requirements)
    if compared:
        yield "The comparison covers chance in the choice of questions. It does not say why the systems differ."
    if compared > 1:
        # No correction as for runs: the tests of a procedure are different questions, and a reader picks none
        # of them.
        yield f"Of {compared} comparisons, one may look like more than chance by chance alone."


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
