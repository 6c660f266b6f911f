"""A report on the page of an audit: its numbers, the comparison row by row, the digests, the settings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.report.audit_inputs import AuditedReport
from steelyard.report.audit_numbers import Digest, MetricNumbers
from steelyard.report.audit_subject import Requirement, several
from steelyard.report.audit_wording import asked, compared, could_be_chance
from steelyard.report.comparison import Comparison, NotComparable
from steelyard.report.comparison_figures import changed_rows, differences, four_ways
from steelyard.report.document import flat, named, run_date
from steelyard.report.figures import intervals
from steelyard.report.page import TILES
from steelyard.report.results import Figure, Metric, Table
from steelyard.report.wording import count

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Compared:
    """The comparison in a section; without figure and tables where nothing could be compared."""

    sentence: str
    chance: str = ""
    figure: Figure | None = None
    four_ways: Table | None = None
    changes: tuple[Table, ...] = ()
    methods: Pairs = ()


@dataclass(frozen=True)
class Section:
    """A requirement with its numbers."""

    number: int
    title: str
    headline: str
    facts: Pairs
    tiles: tuple[Metric, ...]
    metrics: tuple[Metric, ...]
    figure: Figure | None
    compared: Compared | None
    limits: tuple[str, ...]
    evidence: tuple[Digest, ...]
    identifiers: Pairs
    settings: Pairs


def make_section(requirement: Requirement, requirements: Sequence[Requirement], against: str) -> Section:
    numbers, found = requirement.report.numbers, requirement.comparison
    metrics = tuple(_metric(each) for each in numbers.metrics)
    shares = [each for each in metrics if each.unit == "share" and each.name != "ece"]
    where = several(requirements, requirement)
    return Section(
        number=requirement.number,
        title=f"Test {requirement.number}" if where else "The report",
        headline=numbers.headline,
        facts=tuple(_facts(requirement)),
        tiles=tuple(each for k, each in enumerate(metrics) if k == 0 or each.name in TILES),
        metrics=metrics,
        figure=intervals(f"How sure the main figures{where} are", shares) if shares else None,
        compared=_compared(found, against, where) if found else None,
        limits=tuple(numbers.limits),
        evidence=evidence(requirement.report),
        identifiers=tuple(_identifiers(requirement)),
        settings=tuple(flat({key: value for key, value in numbers.run.items() if key != "schemaVersion"})),
    )


def evidence(report: AuditedReport) -> tuple[Digest, ...]:
    """Data, model, outputs and the record of the run, then the report's own files and what is kept of them here."""
    went_in = [each for each in report.numbers.evidence if each.what != "Scores"]
    return (*went_in, *report.files, report.kept)


def _metric(numbers: MetricNumbers) -> Metric:
    return Metric(numbers.name, numbers.title, numbers.estimate, numbers.unit)


def _facts(requirement: Requirement) -> Iterator[tuple[str, str]]:
    numbers, names = requirement.report.numbers, requirement.names
    yield "Questions", asked(requirement.questions, requirement.right.n)
    yield "Dataset", named(names, "dataset")
    yield "Rubric", numbers.rubric
    unanswered = f", {count(numbers.rows.errors)} without an answer" if numbers.rows.errors else ""
    yield "Verified", f"{count(numbers.rows.present)} of {count(numbers.rows.total)} rows{unanswered}"
    if date := run_date(numbers.run):
        yield "Run on", date


def _identifiers(requirement: Requirement) -> Iterator[tuple[str, str]]:
    yield "Report", requirement.report.id
    for key, title in (("evaluation", "Evaluation"), ("dataset", "Dataset"), ("model", "Model")):
        if requirement.names.get(key):
            yield title, requirement.names[key]


def _compared(found: Comparison | NotComparable, against: str, where: str) -> Compared:
    sentence = compared(found, against)
    if isinstance(found, NotComparable):
        return Compared(sentence)
    return Compared(
        sentence=sentence,
        chance=could_be_chance(found),
        figure=differences([("Difference", found)], where),
        four_ways=four_ways(found),
        changes=tuple(changed_rows(each) for each in found.changes if each.total),
        methods=tuple(_methods(found)),
    )


def _methods(found: Comparison) -> Iterator[tuple[str, str]]:
    left_out = f"; {count(found.left_out)} asked of one only are left out" if found.left_out else ""
    yield "Questions compared", f"{count(found.questions)}{left_out}"
    yield "How the interval was made", found.difference.method
    yield "How chance was judged", f"{found.chance.method}, two-sided, p = {found.chance.p:.3g}"
