"""Subject of an audit: the resource's ids, and each report with its comparison."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.report.audit.inputs import AuditedReport
from steelyard.report.comparison.reports import Comparison, NotComparable
from steelyard.report.page.document import named_by_run
from steelyard.report.results import Counts, Metric

MODEL = "Model"
OURS = ".steelyard/"


@dataclass(frozen=True)
class Subject:
    """Identity of this audit: ids as its resource has them."""

    id: str
    account: str
    procedure: str
    service: str
    procedure_name: str = ""
    """Name for people; the id stands beside it in the evidence."""
    use_case: str = ""
    author: str = ""
    """Person or team that is responsible for the audit; like the use case in the words of who asked for it."""


@dataclass(frozen=True)
class Requirement:
    """One report of the procedure, with what it was compared with."""

    number: int
    report: AuditedReport
    lead: Metric
    """The number that leads the report, with its interval as it stands there."""
    right_or_wrong: bool
    """Answers are right or wrong, and the number is the share of right ones."""
    questions: int
    counts: Counts
    comparison: Comparison | NotComparable | None

    @property
    def names(self) -> dict[str, str]:
        return {**named_by_run(self.report.numbers.run), **self.report.numbers.names}

    @property
    def model_files(self) -> tuple[str, ...]:
        """Return the digests of the model's files; our record of their origin is not one of them."""
        files = (entry for entry in self.report.numbers.evidence if entry.what == MODEL)
        return tuple(sorted(entry.sha256 for entry in files if not entry.path.startswith(OURS)))


def several(requirements: Sequence[Requirement], requirement: Requirement) -> str:
    """Return ` in test 2`, or nothing where there is one test."""
    return f" in test {requirement.number}" if len(requirements) > 1 else ""
