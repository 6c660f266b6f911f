"""The models behind `steelyard eval mock`: three that add numbers, some better than others, and judges.

They stand for an endpoint while a user tries the command line: scores differ by model, judges disagree at times, and
a few verdicts cannot be read. What a model answers depends on its name, the prompt and, unless `temperature` is 0, on
how often it was asked the same.
"""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from steelyard_common.types import Json

RIGHT_SHARES = {"small": 0.6, "medium": 0.75, "large": 0.9}
"""Share of the sums that each model gets right; a model of another name is like `medium`."""
JUDGE = "judge"
WORDY_SHARE = 0.2
"""Share of the answers that are a sentence, which a rubric of exact matches calls wrong and a judge does not."""
MISJUDGED_SHARE = 0.04
UNREADABLE_SHARE = 0.02
_SUM = re.compile(r"(-?\d+)\s*\+\s*(-?\d+)")
_SECTION = re.compile(r"^\[(Reference answer|Answer to grade|Answer A|Answer B|Criteria)\]\n", re.MULTILINE)
_GRADES = re.compile(r"GRADE is (.+?):\s*\nVERDICT: GRADE", re.DOTALL)
_NUMBER = re.compile(r"-?\d+")


@dataclass
class MockModels:
    """All models of the endpoint."""

    times: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of times that each model was asked each prompt."""

    def __call__(self, body: Json, prompt: str) -> str | None:
        """The answer; None for a prompt that these models know nothing of."""
        model = str(body.get("model"))
        self.times[model, prompt] += 1
        time = 0 if body.get("temperature") == 0 else self.times[model, prompt]
        luck = _Luck(f"{model} {time} {prompt}")
        if (grades := _GRADES.search(prompt)) is not None:
            return _verdict(prompt, re.split(r", | or ", grades[1]), luck)
        numbers = list(_SUM.finditer(prompt))
        return _sum(numbers[-1], RIGHT_SHARES.get(model, RIGHT_SHARES["medium"]), luck) if numbers else None


class _Luck:
    """Numbers between 0 and 1 that depend on a text alone."""

    def __init__(self, text: str) -> None:
        self._digest = hashlib.sha256(text.encode()).digest()

    def __getitem__(self, place: int) -> float:
        return int.from_bytes(self._digest[4 * place : 4 * place + 4]) / 2**32


def _sum(numbers: re.Match[str], right: float, luck: _Luck) -> str:
    number = int(numbers[1]) + int(numbers[2])
    if luck[0] >= right:
        number += (-10, -1, 1, 10)[int(4 * luck[1])]
    return f"The answer is {number}." if luck[2] < WORDY_SHARE else str(number)


def _verdict(prompt: str, grades: list[str], luck: _Luck) -> str:
    if luck[0] < UNREADABLE_SHARE:
        return "Both the question and the answer leave room for interpretation, so I would rather not say."
    headings = [*_SECTION.finditer(prompt)]
    ends = [following.start() for _, following in pairwise(headings)] + [len(prompt)]
    sections = {heading[1]: prompt[heading.end() : end] for heading, end in zip(headings, ends, strict=True)}
    reference = _number(sections.get("Reference answer", ""))
    if "Answer A" in sections:
        first, second = (_number(sections[name]) == reference for name in ("Answer A", "Answer B"))
        verdict, reason = "tie", "Both answers are worth the same."
        if first != second:
            verdict, reason = ("A", "Answer A is right.") if first else ("B", "Answer B is right.")
    else:
        right = _number(sections.get("Answer to grade", "")) == reference
        verdict = "correct" if right else "incorrect"
        reason = f"The answer {'agrees' if right else 'does not agree'} with the reference."
    if verdict not in grades or luck[1] < MISJUDGED_SHARE:
        verdict, reason = grades[int(luck[2] * len(grades))], "By and large."
    return f"{reason}\nVERDICT: {verdict}"


def _number(text: str) -> str | None:
    """The last whole number of a text."""
    numbers: list[str] = _NUMBER.findall(text)
    return numbers[-1] if numbers else None
