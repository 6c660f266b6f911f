"""Forms of answers as Inspect's scorers read them: `python forms_by_inspect_ai.py FORMS OUT`, in its environment."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Scorer, Target, answer, match
from inspect_ai.solver import TaskState

SCORERS: dict[str, tuple[str, Scorer]] = {
    "numbers": ("Inspect match(numeric)", match(numeric=True)),
    "choices": ("Inspect answer(letter)", answer("letter")),
}


async def read(form: Any, scorer: Scorer) -> Any:
    state = TaskState(
        model=ModelName("none/none"),
        sample_id=0,
        epoch=0,
        input="",
        messages=[],
        output=ModelOutput.from_content("none", form["said"]),
    )
    score = await scorer(state, Target(str(form["target"])))
    assert score is not None
    return {"read": score.answer or "", "right": score.value == "C"}


async def read_all(forms: Any) -> Any:
    readings_by_column: Any = {name: {} for name, _ in SCORERS.values()}
    for form in forms:
        name, scorer = SCORERS[form["kind"]]
        readings_by_column[name][form["key"]] = await read(form, scorer)
    return readings_by_column


def main() -> None:
    forms = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(json.dumps(asyncio.run(read_all(forms))), encoding="utf-8")


if __name__ == "__main__":
    main()
