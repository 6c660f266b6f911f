"""Scores as Inspect's scorers give them: `python scores_by_inspect_ai.py ROWS OUT`, in Inspect's environment."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Scorer, Target, answer, choice, exact, f1, includes, match, math, pattern
from inspect_ai.solver import TaskState

SCORERS: dict[str, tuple[Scorer, str, str]] = {  # the scorer, the answer's column, the target's
    "match(exact)": (match("exact"), "said", "target"),
    "includes": (includes(), "said", "target"),
    "exact": (exact(), "said", "target"),
    "f1": (f1(), "said", "target"),
    "pattern": (pattern(r"(\w+)", ignore_case=False), "said", "target"),
    "match(numeric)": (match(numeric=True), "numeric", "number"),
    "math": (math(), "numeric", "number"),
    "answer(letter)": (answer("letter"), "lettered", "letter"),
    "choice": (choice(), "lettered", "letter"),
}


def state_of(said: str) -> TaskState:
    state = TaskState(
        model=ModelName("none/none"),
        sample_id=0,
        epoch=0,
        input="",
        messages=[],
        choices=["one", "two", "three", "four"],
        output=ModelOutput.from_content("none", said),
    )
    for place in range(4):  # what the solver multiple_choice() notes of the answer
        state.choices.mark_choice(place, said.strip()[-1:] == "ABCD"[place])
    return state


async def score_all(answers: Any) -> Any:
    numbers: Any = {}
    for name, (scorer, said, target) in SCORERS.items():
        scores = [await scorer(state_of(row[said]), Target(row[target])) for row in answers]
        values = [score.value if score is not None else None for score in scores]
        numbers[name] = [float(value == "C") if isinstance(value, str) else value for value in values]
    return numbers


def main() -> None:
    answers = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["answers"]
    Path(sys.argv[2]).write_text(json.dumps(asyncio.run(score_all(answers))), encoding="utf-8")


if __name__ == "__main__":
    main()
