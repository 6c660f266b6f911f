"""What a judge model is asked: part of a request (`RunRequest.judges`), of a task file and of the flags --judge-*."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

Json = Any

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
CRITERIA = "The answer is correct: it says the same as the reference answer, whatever its wording."
PARSE = r"(?im)^\W*verdict\W+(?P<verdict>[\w.+-]+)\W*$"


@dataclass(frozen=True)
class JudgeSpec:
    """One judge. The columns of the row, `question` (its prompt), `response`, `target`, `criteria` and `grades` are
    what its template can use.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    model: str
    urls: tuple[str, ...] = ()
    """By default those of the run."""
    name: str = "judge"
    """Its calls are a run of their own in RUN/judges/<name>/."""
    api_key_env: str = "OPENAI_API_KEY"
    template: str = TEMPLATE
    """Jinja text."""
    criteria: str = CRITERIA
    target: str | None = None
    """The column of the reference answer; by default target, answer or label where there is one."""
    grades: Mapping[str, float] = field(default_factory=lambda: {"correct": 1.0, "incorrect": 0.0})
    """What a verdict may be, in any case, and what it is worth from 0 to 1."""
    parse: str = PARSE
    """A regular expression with a group `verdict`; of several matches the last one counts."""
    sampling: Mapping[str, Json] = field(default_factory=lambda: {"temperature": 0})
