"""A run of the command line: the event loop, Ctrl-C, the display, and the text at the end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from steelyard.cli.eval.display import Display, open_display
from steelyard.cli.eval.next_command import line_to_continue, line_to_judge_on, line_to_score, open_stage
from steelyard.cli.eval.wording import count, duration, headline_lines
from steelyard_common.errors import SteelyardError
from steelyard_common.event_loop import loop_factory
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.context import EXIT_INTERRUPTED, Interrupted, RunContext, RunResult
from steelyard_evaluation.runs.folder import open_run
from steelyard_evaluation.runs.request import RunRequest
from steelyard_evaluation.runs.run import run

Work = Callable[..., Coroutine[Any, Any, RunResult]]
"""The function `run` with all its arguments but the context."""


def execute(
    request: RunRequest,
    folder: Path | None,
    form: str | None,
    sign_key: Path | None,
    *,
    fresh: bool = False,
) -> int:
    """Bring the run to its end, shown in the display `form`; return the exit status."""
    display = open_display(form)
    began = time.monotonic()
    try:
        asked: Work = run
        if request.serve is not None:
            from steelyard.cli.eval.serve import run_served

            asked = run_served
        work = partial(asked, request, folder, sign_key=sign_key, fresh=fresh)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            result = runner.run(_interruptible(display, work))
    except Interrupted as error:
        display.ends({"exit": EXIT_INTERRUPTED, "interrupted": True}, str(error))
        return EXIT_INTERRUPTED
    except SteelyardError as error:
        # Programs that read JSON lines get an end in every case; people get the error from `main`.
        if form == "json":
            display.ends({"exit": error.exit_code, "error": str(error)}, "")
        raise
    finally:
        display.close()
    seconds = time.monotonic() - began
    display.ends(_json(result, seconds), _last_words(result, seconds, request))
    return result.exit_code


def print_estimate(request: RunRequest, folder: Path | None, form: str | None, *, fresh: bool = False) -> int:
    """Print what the run would cost, and make no call; return the exit status."""
    from steelyard.cli.eval.dry_run_text import dry_run_json, dry_run_lines
    from steelyard_evaluation.runs.asked_rows import check_asked_rows
    from steelyard_evaluation.runs.collect import check_request
    from steelyard_evaluation.runs.dry_run import count_calls, count_judging
    from steelyard_evaluation.runs.resolve import resolve

    display = open_display(form)
    resolved = resolve(request, folder)
    asyncio.run(check_request(resolved))
    for text in check_asked_rows(resolved):
        display.warning(text)
    model, judges = count_calls(resolved, fresh=fresh), count_judging(resolved, fresh=fresh)
    lines = dry_run_lines(resolved, model, judges)
    display.ends({"exit": 0, "dryRun": dry_run_json(model, judges)}, "\n".join(lines))
    return 0


async def _interruptible(display: Display, work: Work) -> RunResult:
    """Run `work`: the first signal stops it once its answers are kept, the second one ends the process."""
    context = RunContext(listener=display)

    def interrupt() -> None:
        if context.stop.is_set():
            display.close()
            print("\nsteelyard: stopped at once", file=sys.stderr, flush=True)
            # Not sys.exit: threads that write parts would hold the process until they are done.
            os._exit(EXIT_INTERRUPTED)
        context.stop.set()
        display.warning("stopping once the calls in flight are answered; Ctrl-C again stops at once")

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        return await work(context=context)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _json(result: RunResult, seconds: float) -> dict[str, JsonValue]:
    rows = None if result.manifest is None else result.manifest.rows.model_dump()
    return {
        "exit": result.exit_code,
        "folder": str(result.folder.path),
        "rows": rows,
        "resumed": result.resumed,
        "headline": result.headline,
        "headlines": dict(result.headlines),
        "stopped": result.stopped,
        "spending": result.spending,
        "report": str(result.folder.page) if result.headlines else None,
        "seconds": round(seconds, 3),
    }


def _spending_lines(result: RunResult) -> list[str]:
    """A line with tokens and cost in total, and by account where there are several; no line without calls."""
    spending = result.spending
    if not spending or not spending["tokens"]:
        return []
    accounts = spending["accounts"]
    shares = [f"{account['name']} {_amount(account)}" for account in accounts] if len(accounts) > 1 else []
    lost = sum(account["lostCalls"] for account in accounts)
    line = f"used {_amount(spending)}" + (f" ({'; '.join(shares)})" if shares else "")
    return [line + (f"; {count(lost, 'call')} without an answer at the mean of the others" if lost else "")]


def _amount(account: Mapping[str, JsonValue]) -> str:
    cost = "" if account["cost"] is None else f", {account['cost']:.4g} spent"
    return f"{count(account['tokens'], 'token')}{cost}"


def _last_words(result: RunResult, seconds: float, request: RunRequest) -> str:
    """The last lines: the result, and what to do next."""
    path = result.folder.path
    if result.manifest is None:
        lines = [f"stopped: {result.stopped}", *_spending_lines(result)]
        stage = open_stage(result.folder)
        # A judge that was added to a scored run is not in its run.yaml yet.
        added = stage is None and result.folder.verified
        ahead = (
            line_to_judge_on(result.folder, request) if added else line_to_continue(stage or result.folder)
        )
        return "\n".join([*lines, ahead])
    rows = result.manifest.rows
    new = rows.present - result.resumed
    new_rows = f", {count(new)} of them new" if result.resumed else ""
    lines = [f"{count(rows.present, 'answer')} in {duration(seconds)}{new_rows}"]
    if rows.errors:
        lines.append(f"{count(rows.errors, 'row')} without an answer: steelyard eval show {path} --errors")
    if result.judge_errors:
        judges = path / "judges"
        lines.append(
            f"{count(result.judge_errors, 'answer')} without a verdict that could be read: the rows of the page show "
            f"why; the judge's prompt: steelyard eval show {judges}/NAME --row N"
        )
    lines += _spending_lines(result)
    if result.headlines:
        lines += [*headline_lines(result.headlines), f"report: {result.folder.page}"]
    else:
        lines.append(f"score: {line_to_score(open_run(path))}")
    return "\n".join(lines)
