"""Forms of answers that models give, with the right reading of each: `forms.yaml`, and our reading of them."""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from steelyard_evaluation.report.results import Answer, Rubric
from steelyard_evaluation.report.rubrics.choice import MultipleChoice
from steelyard_evaluation.report.rubrics.numeric import Close

FOLDER = Path(__file__).parent
CITIES = ["London", "Paris", "New York", "York"]
Kind = Literal["numbers", "choices"]
KINDS: tuple[Kind, ...] = ("numbers", "choices")
RUBRICS: dict[Kind, Rubric] = {"numbers": Close(), "choices": MultipleChoice()}


@dataclass(frozen=True)
class Form:
    """One answer to a question with a target, and whether it counts as right."""

    kind: Kind
    group: str
    said: str
    target: str
    right: bool
    options: Any = None

    @property
    def key(self) -> str:
        """The name of the form in originals.json."""
        return f"{self.kind}/{self.group}/{self.said} [{self.target}]"

    def scored(self, said: str | None = None) -> dict[str, Any]:
        """Our row of scores of this answer, or of another text in its place."""
        row = {"target": self.target} | ({"choices": self.options} if self.options else {})
        return RUBRICS[self.kind].score(Answer(0, "r", row, [{"text": self.said if said is None else said}]))


Reading = dict[str, Any]  # "read": what a tool takes for the answer; "right": whether it then counts as right
Outcome = Literal["same", "nothing", "other", "guess"]
NOTHING = ("", "[invalid]", "None")  # what tools put where they read nothing


@functools.cache
def originals() -> dict[str, dict[str, Reading]]:
    """The readings of other tools, by column and by form; tests/engines/originals computes them again."""
    document: dict[str, dict[str, Reading]] = json.loads(
        (FOLDER / "originals.json").read_text(encoding="utf-8")
    )
    return document


def outcome(form: Form, reading: Reading) -> Outcome:
    """The difference between a reading and the right one: it reads nothing, something else, or an unclear part."""
    if reading["right"] == form.right:
        return "same"
    if reading["right"]:
        return "guess"
    return "nothing" if reading["read"] in NOTHING else "other"


@functools.cache
def forms() -> tuple[Form, ...]:
    """All forms, in the order of the file."""
    return tuple(_read())


def _read() -> Iterator[Form]:
    document = yaml.safe_load((FOLDER / "forms.yaml").read_text(encoding="utf-8"))
    for kind in KINDS:
        for group, rows in document[kind].items():
            for row in rows:
                options = row.get("options", CITIES if kind == "choices" else None)
                yield Form(kind, group, row["said"], row["target"], row["right"], options)
