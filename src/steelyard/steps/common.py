"""Parts that every step has in common: its configuration file, its log, its last words and its exit status.

A step is `async def main(config, log)`; `run_step(main, NAME)` is all that its `__main__` does. What `main` returns, if
anything, is the message of its last words.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TextIO

import orjson
from pydantic import ValidationError

from steelyard.steps.exits import leave
from steelyard.steps.kept_log import KeptLog, open_log
from steelyard.telemetry.tracing import TRACEPARENT, send_spans, span
from steelyard_common.disk_space import is_cancelled, no_room
from steelyard_common.errors import escape
from steelyard_common.event_loop import loop_factory
from steelyard_evaluation.storage.checked import DigestMismatch
from steelyard_evaluation.storage.store import ObjectMissing, StorageError, StorageFull
from steelyard_schema.faults import exception_text, faults_text
from steelyard_schema.steps import (
    EXIT_OK,
    EXIT_PERMANENT,
    EXIT_RETRY,
    TERMINATION_BYTES,
    StepConfig,
    Termination,
    epoch_again,
)

ROOM_SECONDS = 5.0
"""Seconds between two tries to write to a folder whose disk is full."""
FieldValue = str | int | float | bool | None


class StepFailed(Exception):
    """The step ends without success: `code` becomes the condition's reason, `row` says which row it was.

    `permanent` says that another attempt would fail in the same way.
    """

    def __init__(self, code: str, message: str, *, permanent: bool, row: str | int | None = None) -> None:
        self.message = escape(message)  # people read it in their terminal, with what it quotes of the data
        super().__init__(self.message)
        self.code = code
        self.permanent = permanent
        self.row = None if row is None else str(row)


class Log:
    """JSON lines on standard output: `time`, `level`, `step`, `message`, then the fields given."""

    def __init__(self, step: str, out: TextIO | None = None) -> None:
        self.step = step
        self._out = out or sys.stdout
        self.kept: KeptLog | None = None
        """Second destination of the lines, if any."""

    def info(self, message: str, **fields: FieldValue) -> None:
        self._write("info", message, fields)

    def warning(self, message: str, **fields: FieldValue) -> None:
        self._write("warning", message, fields)

    def error(self, message: str, **fields: FieldValue) -> None:
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, FieldValue]) -> None:
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "step": self.step,
            "message": escape(message),
            **{name: escape(value) if isinstance(value, str) else value for name, value in fields.items()},
        }
        text = orjson.dumps(line).decode() + "\n"
        self._out.write(text)
        # Standard output of a container is a pipe with a buffer: a kill would lose what lies in it.
        self._out.flush()
        if self.kept is not None:
            self.kept.add(text)


async def wait_for_room(error: Exception) -> None:
    """Pass the time until a full disk may have room again: finished work is kept, and no attempt is used up for it."""
    print(f"waiting for room: {error}", file=sys.stderr, flush=True)
    await asyncio.sleep(ROOM_SECONDS)


StepMain = Callable[[StepConfig, Log], Awaitable[str | None]]


def run_step(main: StepMain, name: str) -> NoReturn:
    """Run the step `main` with the file of `--config`, and exit as RESOURCES.md says: 0, 1 (worth a retry), 65."""
    parser = argparse.ArgumentParser(prog=f"python -m steelyard.steps.{name}")
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="the step's configuration (JSON)"
    )
    arguments = parser.parse_args()
    leave(execute(main, Log(name), arguments.config))


def execute(main: StepMain, log: Log, path: Path) -> int:
    """`run_step` without the exit: the status, with the termination message written and the log kept."""
    config = _configuration(path)
    if not isinstance(config, StepConfig):
        return _last_words(log, *config)
    # While its disk is full, Python would take another folder, or say that there is none.
    tempfile.tempdir = os.environ.get("TMPDIR") or tempfile.tempdir
    with send_spans("step"), span(log.step, os.environ.get(TRACEPARENT), kind="consumer") as opened:
        status = _run(main, log, config)
        opened.set("process.exit.code", status)
        if status != EXIT_OK:
            opened.fail(f"exit {status}")
    return status


def _run(main: StepMain, log: Log, config: StepConfig) -> int:
    # One runner for the step and the end of its log: the loop must outlive the step, however that ends.
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        log.kept = open_log(config)
        status = _last_words(log, *_outcome(runner, _once_room(main, config, log), log.kept))
        if log.kept is not None:
            runner.run(log.kept.close())
            if log.kept.trouble:
                print(f"the log is not kept in storage: {log.kept.trouble}", file=sys.stderr)
    return status


async def _once_room(main: StepMain, config: StepConfig, log: Log) -> str | None:
    """Run the step; one whose own files found no room on the disk begins again, as its next attempt would.

    It waits for as long as the Job's deadline lets it. What goes to storage waits by itself.
    """
    times = 0
    while True:
        try:
            return await main(config.model_copy(update={"epoch": epoch_again(config.epoch, times)}), log)
        except Exception as error:
            # A full disk is not the step's fault and passes; a failed attempt would be counted.
            if not no_room(error) or is_cancelled():
                raise
            await wait_for_room(error)
            times += 1


def _configuration(path: Path) -> StepConfig | tuple[Termination, int]:
    try:
        return StepConfig.model_validate_json(path.read_bytes())
    # A mount may be late: worth a retry, unlike a file that is wrong.
    except FileNotFoundError:
        return Termination(code="InputMissing", message=f"--config {path}: there is no such file"), EXIT_RETRY
    except ValidationError as error:
        text = f"--config {path}: {faults_text(error, model=StepConfig)}"
        return Termination(code="BadConfiguration", message=text), EXIT_PERMANENT


def _outcome(
    runner: asyncio.Runner, step: Awaitable[str | None], kept: KeptLog | None
) -> tuple[Termination, int]:
    try:
        said = runner.run(_until_terminated(step, kept))
    except StepFailed as error:
        termination = Termination(code=error.code, message=error.message, row=error.row)
        return termination, EXIT_PERMANENT if error.permanent else EXIT_RETRY
    # Worth a retry: what it needs may still be on its way, and another attempt costs little.
    except ObjectMissing as error:
        return Termination(code="InputMissing", message=f"there is no object {error}"), EXIT_RETRY
    # What is kept there was changed, which no other attempt mends.
    except DigestMismatch as error:
        return Termination(code="DigestMismatch", message=str(error)), EXIT_PERMANENT
    except StorageFull as error:
        return Termination(code="StorageFull", message=f"the storage is full: {error}"), EXIT_RETRY
    except StorageError as error:
        return Termination(code="StorageFailed", message=str(error)), EXIT_RETRY
    except asyncio.CancelledError:
        return Termination(code="Terminated", message="ended by SIGTERM before it was done"), EXIT_RETRY
    except Exception as error:  # noqa: BLE001 - the outermost edge: whatever it was, the reason has to reach the condition
        return Termination(code="Internal", message=exception_text(error)), EXIT_RETRY
    return Termination(code="Complete", message=said or ""), EXIT_OK


def _last_words(log: Log, termination: Termination, status: int) -> int:
    _write_termination(termination)
    write = log.info if status == EXIT_OK else log.error
    write(termination.message or "done", code=termination.code, exit=status)
    return status


async def _until_terminated(step: Awaitable[str | None], kept: KeptLog | None) -> str | None:
    """Await the step, while its log goes to storage; SIGTERM cancels it, so that its `finally` blocks run."""
    # Kubernetes' contract: SIGTERM, then a grace period, then SIGKILL. The step is cancelled, so that it can say so.
    task = asyncio.ensure_future(step)
    keeping = asyncio.create_task(kept.keep()) if kept else None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    finally:
        # From here on it comes too late: how the step ends is settled. The handler goes with the loop.
        loop.add_signal_handler(signal.SIGTERM, lambda: None)
        if kept and keeping:
            await kept.end(keeping)


def _write_termination(termination: Termination) -> None:
    path = Path(os.environ.get("STEELYARD_TERMINATION_LOG", "/dev/termination-log"))
    fields, message = termination.model_dump(exclude_none=True), termination.message
    # The kubelet reads 4 KiB of a termination message at most, and JSON that is cut is not JSON any more.
    while len(data := orjson.dumps({**fields, "message": message})) > TERMINATION_BYTES:
        message = message[: len(message) * 3 // 4]
    try:
        path.write_bytes(data)
    except OSError as error:  # outside a container there is no such file; the log line says the same
        print(f"cannot write the termination message to {path}: {error}", file=sys.stderr)
