"""The definition of a judge: part of a request (`RunRequest.judges`), of a task file and of the options --judge-*."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.spending.prices import PriceSpec

TEMPLATE = """\
You are grading an answer to a question.

[Question]
{{ question }}
{% if target is not none %}
[Reference answer]
{{ target }}
{% endif %}
[Answer to grade]
{{ response }}

[Criteria]
{{ criteria }}

First give your reasons in one or two sentences. Then end with one line of exactly this form, where GRADE is \
{{ grades }}:
VERDICT: GRADE
"""
PAIR_TEMPLATE = """\
Two answers were given to a question. Say which one is better.

[Question]
{{ question }}
{% if target is not none %}
[Reference answer]
{{ target }}
{% endif %}
[Answer A]
{{ first }}

[Answer B]
{{ second }}

[Criteria]
{{ criteria }}

Neither the order of the answers nor their length makes one better. First give your reasons in one or two sentences. \
Then end with one line of exactly this form, where GRADE is {{ grades }}:
VERDICT: GRADE
"""
PAIR_CRITERIA = (
    "The better answer is the more correct one, then the more helpful one. Equally good answers are a tie."
)
CRITERIA = "The answer is correct: it says the same as the reference answer, whatever its wording."
SAMPLING: Mapping[str, JsonValue] = {"temperature": 0}
PARSE = r"(?im)^\W*verdict\W+(?P<verdict>[\w.+-]+)\W*$"


def _grades() -> dict[str, float]:
    return {"correct": 1.0, "incorrect": 0.0}


@dataclass(frozen=True)
class JudgeSpec:
    """One judge. The columns of the row, `question` (its prompt), `response`, `target`, `criteria` and `grades` are
    what its template can use; of a pair `first` and `second` as well.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    model: str
    urls: tuple[str, ...] = ()
    """Base URLs of the judge's endpoint; by default those of the run."""
    name: str = "judge"
    """Name of the judge's own run, in RUN/judges/<name>/."""
    api_key_env: str = "OPENAI_API_KEY"
    template: str = TEMPLATE
    """Jinja text."""
    criteria: str = CRITERIA
    target: str | None = None
    """The column of the reference answer; by default target, answer or label where there is one."""
    grades: Mapping[str, float] = field(default_factory=_grades)
    """Possible verdicts, in any case of letters, and the score of each from 0 to 1."""
    parse: str = PARSE
    """A regular expression with a group `verdict`; of several matches the last one counts."""
    sampling: Mapping[str, JsonValue] = field(default_factory=lambda: dict(SAMPLING))
    prices: PriceSpec | None = None
    """Prices of the judge's tokens; they are paid from the budget of the run."""
    against: str | None = None
    """The column with another answer to each question: the judge says which of the two is better, in both orders.
    Grades are then worth what they say for the answer that is shown first.
    """
    times: int = 1
    """Number of times that each answer, or each order of a pair, is judged."""

    @property
    def pairwise(self) -> bool:
        """Return whether two answers are held against each other."""
        return self.against is not None

    def identity(self, urls: Sequence[str]) -> dict[str, JsonValue]:
        """Return what its verdicts depend on, part by part; `urls` are those of the run."""
        judge = self.with_defaults()
        return {
            "model": judge.model,
            "endpoint": sorted(judge.urls or urls),
            "template": judge.template,
            "criteria": judge.criteria,
            "target": judge.target,
            "grades": dict(judge.grades),
            "sampling": dict(judge.sampling),
            "against": judge.against,
            "replications": judge.times,
        }

    def with_defaults(self) -> "JudgeSpec":
        """The judge with the template, criteria and grades of a pair, where its request lacks them."""
        if not self.pairwise:
            return self
        return replace(
            self,
            template=PAIR_TEMPLATE if self.template == TEMPLATE else self.template,
            criteria=PAIR_CRITERIA if self.criteria == CRITERIA else self.criteria,
            grades={"A": 1.0, "tie": 0.5, "B": 0.0} if self.grades == _grades() else self.grades,
        )
