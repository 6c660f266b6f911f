"""What a run takes from outside, and how it ends."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from steelyard.errors import SteelyardError
from steelyard.evaluation.caps import Others
from steelyard.evaluation.manifest import Manifest
from steelyard.runs.folder import RunFolder
from steelyard.types import JsonValue

EXIT_COMPLETE, EXIT_ROW_ERRORS, EXIT_CAP, EXIT_INTERRUPTED = 0, 3, 4, 130


class RunFailed(SteelyardError):
    """The run cannot go on now; what was answered is kept."""


class Interrupted(SteelyardError):
    """Somebody asked to stop; what was answered is kept."""

    exit_code = EXIT_INTERRUPTED


class Listener(Protocol):
    """Where a run says what happens."""

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
class World:
    """Time, chance, the environment, a listener, and the wish to stop."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    chance: Callable[[], float] = random.random
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    listener: Listener = field(default_factory=Silence)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to make no more calls; those in flight are awaited, and what was answered is kept."""
    clock: Callable[[], float] = time.monotonic
    ends_at: float | None = None
    """The moment, by `clock`, at which the time of the whole run is up, its judges included."""
    others: Others = field(default_factory=Others)
    """What others have taken from the budget of this run."""

    def limited(self, seconds: float | None) -> "World":
        """The same, with `seconds` from now on; where an end is fixed already, that stays."""
        if seconds is None or self.ends_at is not None:
            return self
        return replace(self, ends_at=self.clock() + seconds)


@dataclass(frozen=True)
class Outcome:
    """How a run ended, other than by an error."""

    folder: RunFolder
    manifest: Manifest | None
    """None when it stopped at a cap."""
    resumed: int = 0
    """Rows that were there already."""
    headlines: tuple[tuple[str, str], ...] = ()
    """Each rubric and its headline, the leading one first."""
    stopped: str | None = None
    """Which cap was reached, in a sentence."""
    spending: Mapping[str, JsonValue] | None = None
    """Tokens and cost of the model, of each judge and in total, as report.json has them."""
    judge_errors: int = 0
    """Answers that a judge gave no verdict on."""

    @property
    def headline(self) -> str | None:
        """Headline of the rubric that leads."""
        return self.headlines[0][1] if self.headlines else None

    @property
    def exit_code(self) -> int:
        if self.manifest is None:
            return EXIT_CAP
        return EXIT_ROW_ERRORS if self.manifest.rows.errors or self.judge_errors else EXIT_COMPLETE
