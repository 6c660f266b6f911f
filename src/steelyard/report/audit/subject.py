"""What an audit is about: the resource's ids, and each report with what it was compared with."""

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
    """Which audit this is: ids as its resource has them."""

    id: str
    account: str
    procedure: str
    service: str
    procedure_name: str = ""
    """For people; the id stands beside it in the evidence."""
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
        """What the model consists of; our record of where it came from is not part of it."""
        files = (each for each in self.report.numbers.evidence if each.what == MODEL)
        return tuple(sorted(each.sha256 for each in files if not each.path.startswith(OURS)))


def several(requirements: Sequence[Requirement], requirement: Requirement) -> str:
    """` in test 2`, where there is more than one."""
    return f" in test {requirement.number}" if len(requirements) > 1 else ""
