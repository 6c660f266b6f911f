"""The command to type next: for a run that is not done, and for one without a score.

The end of `steelyard eval run` and `steelyard eval show` print it.
"""

import math
import os
from pathlib import Path

import orjson

from steelyard.cli.eval.wording import count
from steelyard_common.bounded_parquet import open_parquet
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.folder import Run, RunFolder
from steelyard_evaluation.runs.request import TARGETS, RunRequest
from steelyard_evaluation.runs.spending.accounts import MODEL, Spender, accounts

SAME = "the same command"
HEADROOM = 1.1
"""Factor on what all rows need at the mean of those so far: the rest may be longer."""


def stage_lines(stage: RunFolder) -> list[str]:
    """Return the progress of the calls to the model or a judge, why they stopped, and the command that continues."""
    progress = _progress(stage)
    lines = []
    if progress is not None:
        lines.append(f"{count(progress['done'])} of {count(progress['total'])} answered")
        if stopped := progress.get("stopped"):
            lines.append(f"stopped: {stopped['message']}")
    if stage.failure.exists():
        lines.append(f"failed: {stage.failure.read_text()}")
    return [*lines, line_to_continue(stage)]


def line_to_continue(stage: RunFolder) -> str:
    """The command that continues the calls to the model or to a judge; after a cap, with a higher one."""
    run = find_judged_run(stage) or stage
    return _line_to_continue(stage, run, run.request(), f"steelyard eval run {run.path}")


def line_to_judge_on(run: RunFolder, request: RunRequest) -> str:
    """Return how to continue after a cap ended judging that only `request` names, and not yet the run."""
    stage = open_stage(run, request) or run
    return _line_to_continue(stage, run, request, SAME)


def _line_to_continue(stage: RunFolder, run: RunFolder, request: RunRequest, command: str) -> str:
    progress = _progress(stage)
    stopped = (progress or {}).get("stopped")
    if not stopped:
        return f"to go on: {command}"
    if stopped["cap"] == "seconds":
        return f"to go on for the same time again: {command}"
    if stopped["cap"] == "service":
        return f"to go on once the service takes calls again: {command}"
    return _with_higher_cap(run, request, stage, progress, command)


def open_stage(run: RunFolder, request: RunRequest | None = None) -> RunFolder | None:
    """The run of the model, else of the first judge, that was begun and has no verified output; None after the last."""
    stages = (run, *(run.judge(spec.name) for spec in (request or run.request()).judges))
    return next((stage for stage in stages if stage.begun and not stage.verified), None)


def line_to_score(run: Run) -> str:
    """Return what to do for a score of a run without scores."""
    judged = find_judged_run(run.folder)
    if judged is not None:
        return f"none of its own: its verdicts are part of {judged.path}: steelyard eval show {judged.path}"
    if run.request.rubrics:  # judging or scoring has not ended
        return f"none yet: steelyard eval run {run.folder.path}"
    columns = open_parquet(run.folder.inputs_file).schema_arrow.names
    rubric = "exact-match" if any(name in columns for name in TARGETS) else "'exact-match?target=COLUMN'"
    return f"none yet: steelyard eval score {run.folder.path} --rubric {rubric}"


def find_judged_run(folder: RunFolder) -> RunFolder | None:
    """The run whose answers the run in `folder` judges; None for the run of another model."""
    # Not resolved: through a link, the folder would have another name than the user gave.
    path = Path(os.path.abspath(folder.path))
    if path.parent.name != "judges" or not RunFolder(path.parent.parent).begun:
        return None
    return RunFolder(
        Path(os.path.relpath(path.parent.parent)) if not folder.path.is_absolute() else path.parent.parent
    )


def _with_higher_cap(
    run: RunFolder, request: RunRequest, stage: RunFolder, progress: JsonValue, command: str
) -> str:
    """The command with a cap that lets every row of `stage` be answered, at the mean of the rows so far."""
    in_tokens = progress["stopped"]["cap"] == "tokens"
    spent = accounts(run, request)
    name = MODEL if stage.path == run.path else stage.path.name
    own = sum(_amount(account, in_tokens) for account in spent if account.name == name)
    others = sum(_amount(account, in_tokens) for account in spent if account.name != name)
    before = (request.limits.max_tokens_total if in_tokens else request.limits.max_cost) or 0
    # Nothing is known of the mean before the first answer: then twice the cap is as good a guess as any.
    known = progress["done"] and own
    needed = others + own * progress["total"] / progress["done"] if known else 2.0 * before
    raised = _round_up(max(needed, before) * HEADROOM)
    option = f"--max-tokens-total {raised:.0f}" if in_tokens else f"--max-cost {raised:g}"
    judges = "; its judges need more" if name == MODEL and request.judges else ""
    unit = " tokens" if in_tokens else ""
    setting = f"with {option}" if command == SAME else option
    return f"to go on (at this rate about {_round_up(needed):,.6g}{unit} are needed{judges}): {command} {setting}"


def _amount(account: Spender, in_tokens: bool) -> float:
    return account.tokens if in_tokens else account.cost or 0.0


def _round_up(number: float) -> float:
    """The next number with two significant digits."""
    if number <= 0:
        return 1.0
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.6g}")


def _progress(stage: RunFolder) -> JsonValue:
    """The content of progress.json; None where there is none that can be read."""
    try:
        return orjson.loads(stage.progress.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
