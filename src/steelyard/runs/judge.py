"""Judge models: each asks a model about every answer of a verified run, as a run of its own beside it.

RUN/judges/<name>/ is that run (resumable, stored, the same engine). RUN/judged/ is the run's output once more, with
the verdicts in it, laid out as an output is: what the rubric `judge.Verdict` scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.runs.folder import Run
from steelyard.runs.judge_spec import JudgeSpec
from steelyard.runs.run import World

Json = Any


@dataclass(frozen=True)
class Judged:
    """What became of the verdicts."""

    answers: int
    errors: int
    """Answers that a judge gave no verdict on that could be read: row errors."""
    stopped: str | None = None
    """Which cap was reached, in a sentence."""


async def judge(run: Run, specs: Sequence[JudgeSpec], world: World) -> Judged:
    """Have every answer judged by every judge; the same errors as `run`. Asked again, it goes on."""
    raise NotImplementedError
