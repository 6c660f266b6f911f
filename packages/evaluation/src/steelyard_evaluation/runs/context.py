"""The surroundings of a run (clock, environment, listener, stop) and its result."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from steelyard_common.errors import SteelyardError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.caps import OtherUsage
from steelyard_evaluation.engine.manifest import Manifest
from steelyard_evaluation.runs.folder import RunFolder

EXIT_COMPLETE, EXIT_ROW_ERRORS, EXIT_CAP, EXIT_INTERRUPTED = 0, 3, 4, 130


class RunFailed(SteelyardError):
    """The run cannot go on now; earlier answers are kept."""


class Interrupted(SteelyardError):
    """The run was stopped by a signal; earlier answers are kept."""

    exit_code = EXIT_INTERRUPTED


class Listener(Protocol):
    """A receiver of what happens in a run: a display, or a test."""

    def begins(self, folder: RunFolder, total: int, done: int) -> None: ...
    def progress(self, snapshot: Mapping[str, JsonValue]) -> None: ...
    def step(self, text: str) -> None: ...
    def warning(self, text: str) -> None: ...


class Silence:
    """A listener that says nothing."""

    def begins(self, folder: RunFolder, total: int, done: int) -> None:
        return None

    def progress(self, snapshot: Mapping[str, JsonValue]) -> None:
        return None

    def step(self, text: str) -> None:
        return None

    def warning(self, text: str) -> None:
        return None


@dataclass(frozen=True)
class RunContext:
    """Clocks, randomness, environment variables, the listener and the stop event of one run."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    jitter: Callable[[], float] = random.random
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    listener: Listener = field(default_factory=Silence)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """The event to set for no more calls; those in flight are awaited, and earlier answers are kept."""
    clock: Callable[[], float] = time.monotonic
    ends_at: float | None = None
    """Deadline of the whole run with its judges, in seconds of `clock`; None without a limit."""
    others: OtherUsage = field(default_factory=OtherUsage)
    """Tokens and cost that others have taken from the budget of this run."""

    def with_deadline(self, seconds: float | None) -> "RunContext":
        """Return the context with a deadline in `seconds` from now; a deadline that is fixed already stays."""
        # A judge's run has the same limits as the run that it judges: a deadline of its own would double the
        # time.
        if seconds is None or self.ends_at is not None:
            return self
        return replace(self, ends_at=self.clock() + seconds)


@dataclass(frozen=True)
class RunResult:
    """The end of a run, other than by an error."""

    folder: RunFolder
    manifest: Manifest | None
    """The manifest of the verified output; None when the run stopped at a cap."""
    resumed: int = 0
    """Number of rows that earlier attempts had answered."""
    headlines: tuple[tuple[str, str], ...] = ()
    """Pairs of a rubric and its headline, the leading rubric first."""
    stopped: str | None = None
    """The cap that was reached, in a sentence."""
    spending: Mapping[str, JsonValue] | None = None
    """Tokens and cost of the model, of each judge and in total, as report.json has them."""
    judge_errors: int = 0
    """Number of answers without a verdict of a judge."""

    @property
    def headline(self) -> str | None:
        """The headline of the leading rubric."""
        return self.headlines[0][1] if self.headlines else None

    @property
    def exit_code(self) -> int:
        if self.manifest is None:
            return EXIT_CAP
        return EXIT_ROW_ERRORS if self.manifest.rows.errors or self.judge_errors else EXIT_COMPLETE
