"""Subject of an audit: the resource's ids and names; and its requirements: reports with their comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard_evaluation.report.audit.inputs import AuditedReport
from steelyard_evaluation.report.comparison.reports import Comparison, NotComparable
from steelyard_evaluation.report.page.document import MODEL, read_names
from steelyard_evaluation.report.results import Counts, Metric

OURS = ".steelyard/"


@dataclass(frozen=True)
class Subject:
    """Ids and names of an audit, as in its resource."""

    id: str
    account: str
    procedure: str
    service: str
    procedure_name: str = ""
    """Name of the procedure for people; the page has its id under Provenance."""
    use_case: str = ""
    author: str = ""
    """Person or team that is responsible for the audit; like the use case it is free text."""


@dataclass(frozen=True)
class Requirement:
    """One report of the procedure, with its comparison."""

    number: int
    report: AuditedReport
    lead: Metric
    """The report's first number, with its interval."""
    questions: int
    """Number of all questions."""
    graded: int
    """Number of questions with an answer that is not left out."""
    right: int | None
    """Number of graded questions whose every answer is right; None unless the lead is a share of right answers."""
    counts: Counts
    comparison: Comparison | NotComparable | None

    @property
    def right_or_wrong(self) -> bool:
        """True if answers are right or wrong, and the number is the share of right ones."""
        return self.right is not None

    @property
    def names(self) -> dict[str, str]:
        return {**read_names(self.report.numbers.run), **self.report.numbers.names}

    @property
    def model_files(self) -> tuple[str, ...]:
        """SHA-256 digests of the model's files, without our own record of their origin."""
        # Our record of a model's origin changes with every upload; its weights may be the same.
        files = (entry for entry in self.report.numbers.evidence if entry.what == MODEL)
        return tuple(sorted(entry.sha256 for entry in files if not entry.path.startswith(OURS)))


def in_test(requirements: Sequence[Requirement], requirement: Requirement) -> str:
    """Return ` in test 2`, or nothing if there is only one test."""
    return f" in test {requirement.number}" if len(requirements) > 1 else ""
