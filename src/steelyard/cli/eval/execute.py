"""A run under the command line: the event loop, Ctrl-C, the display, and what is said at the end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from steelyard.cli.eval.display import Shown, open_shown
from steelyard.cli.eval.wording import count, duration, headline_lines
from steelyard.errors import SteelyardError
from steelyard.runs.context import EXIT_INTERRUPTED, Interrupted, RunContext, RunResult
from steelyard.runs.request import RunRequest
from steelyard.runs.run import run
from steelyard.types import JsonValue

Going = Callable[..., Coroutine[Any, Any, RunResult]]
"""`run` with all its arguments but the context."""


def go(
    request: RunRequest,
    folder: Path | None,
    display: str | None,
    sign_key: Path | None,
    *,
    fresh: bool = False,
) -> int:
    """Run it; the exit status."""
    shown = open_shown(display)
    began = time.monotonic()
    try:
        result = _run(shown, partial(run, request, folder, sign_key=sign_key, fresh=fresh))
    except Interrupted as error:
        shown.ends({"exit": EXIT_INTERRUPTED, "interrupted": True}, str(error))
        return EXIT_INTERRUPTED
    except SteelyardError as error:
        if display == "json":
            shown.ends({"exit": error.exit_code, "error": str(error)}, "")
        raise
    finally:
        shown.close()
    seconds = time.monotonic() - began
    shown.ends(_result(result, seconds), _words(result, seconds))
    return result.exit_code


def dry(request: RunRequest, folder: Path | None, display: str | None, *, fresh: bool = False) -> int:
    """Say what it would cost."""
    from steelyard.runs.dry_run import BYTES_PER_TOKEN, as_json, estimate
    from steelyard.runs.resolve import resolve

    shown = open_shown(display)
    resolved = resolve(request, folder)
    estimated = estimate(resolved, fresh=fresh)
    lines = [f"{resolved.folder.path}: {count(estimated.calls, 'call')} to make, none was made"]
    if estimated.done:
        lines.append(f"{count(estimated.done)} of {count(resolved.total)} are answered already")
    if estimated.fault_count:
        lines += [f"{count(estimated.fault_count, 'row')} cannot be asked:", *estimated.faults]
    lines.append(
        f"about {count(estimated.prompt_tokens, 'token')} of requests (their bytes, at {BYTES_PER_TOKEN} a token)"
    )
    most = estimated.completion_tokens
    lines.append(
        "tokens of answers: unknown without --max-tokens"
        if most is None
        else f"at most {count(most, 'token')} of answers (--max-tokens)"
    )
    if estimated.cost is not None:
        lines.append(f"about {estimated.cost:.4g} at most")
    shown.ends({"exit": 0, "dryRun": dict(as_json(estimated))}, "\n".join(lines))
    return 0


def _run(shown: Shown, going: Going) -> RunResult:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_interruptible(shown, going))


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _interruptible(shown: Shown, going: Going) -> RunResult:
    """The first signal stops the run once what was answered is kept, the second one ends the process."""
    context = RunContext(listener=shown)

    def interrupt() -> None:
        if context.stop.is_set():
            shown.close()
            print("\nsteelyard: stopped at once", file=sys.stderr, flush=True)
            os._exit(EXIT_INTERRUPTED)
        context.stop.set()
        shown.warning("stopping once the calls in flight are answered; Ctrl-C again stops at once")

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        return await going(context=context)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _result(result: RunResult, seconds: float) -> dict[str, JsonValue]:
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


def _spent(result: RunResult) -> list[str]:
    """One line: tokens and cost in total, and of each account where there are several."""
    spending = result.spending
    if not spending or not spending["tokens"]:
        return []
    accounts = spending["accounts"]
    shares = [f"{account['name']} {_amount(account)}" for account in accounts] if len(accounts) > 1 else []
    lost = sum(account["lostCalls"] for account in accounts)
    words = f"used {_amount(spending)}" + (f" ({'; '.join(shares)})" if shares else "")
    return [words + (f"; {count(lost, 'call')} without an answer at the mean of the others" if lost else "")]


def _amount(account: Mapping[str, JsonValue]) -> str:
    cost = "" if account["cost"] is None else f", {account['cost']:.4g} spent"
    return f"{count(account['tokens'], 'token')}{cost}"


def _words(result: RunResult, seconds: float) -> str:
    """The last lines: what came of it, and what to do next."""
    path = result.folder.path
    if result.manifest is None:
        lines = [f"stopped: {result.stopped}", *_spent(result)]
        return "\n".join([*lines, f"to go on: steelyard eval run {path}, with a higher cap"])
    rows = result.manifest.rows
    new = rows.present - result.resumed
    new_rows = f", {count(new)} of them new" if result.resumed else ""
    lines = [f"{count(rows.present, 'answer')} in {duration(seconds)}{new_rows}"]
    if rows.errors:
        lines.append(f"{count(rows.errors, 'row')} without an answer: steelyard eval show {path} --errors")
    if result.judge_errors:
        judges = path / "judges"
        lines.append(
            f"{count(result.judge_errors, 'verdict')} of the judges could not be read: their reasons are in the "
            f"rows of the page; what a judge was asked: steelyard eval show {judges}/NAME --row N"
        )
    lines += _spent(result)
    if result.headlines:
        lines += [*headline_lines(result.headlines), f"report: {result.folder.page}"]
    else:
        lines.append(f"to score: steelyard eval score {path} --rubric exact-match")
    return "\n".join(lines)
