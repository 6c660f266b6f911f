"""Displays of a run: a live line in a terminal, plain lines elsewhere, JSON lines for programs, or nothing.

Every display is a `Listener` of the run; `ends` is called last.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO, Protocol

from steelyard.cli.eval.wording import count, duration
from steelyard.cli.plain_text import terminal
from steelyard_common.errors import UsageError, escape, one_line
from steelyard_common.types import JsonValue, mapping
from steelyard_evaluation.runs.context import Listener, Silence
from steelyard_evaluation.runs.folder import RunFolder

PLAIN_SECONDS = 5.0


class Display(Listener, Protocol):
    """A listener that also prints the text at the end."""

    def says(self, text: str) -> None: ...
    def ends(self, result: Mapping[str, JsonValue], text: str) -> None: ...
    def close(self) -> None: ...


class Plain:
    """A display that prints a line every few seconds, for pipes, CI and NO_COLOR."""

    def __init__(self, out: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._last_line = float("-inf")

    def begins(self, folder: RunFolder, total: int, done: int) -> None:
        self.says(beginning(folder, total, done))
        self._last_line = self._clock()

    def progress(self, snapshot: Mapping[str, JsonValue]) -> None:
        if self._clock() - self._last_line >= PLAIN_SECONDS:
            self._last_line = self._clock()
            self.says(line(snapshot))

    def step(self, text: str) -> None:
        self.says(text)

    def warning(self, text: str) -> None:
        self.says(f"warning: {text}")

    def says(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def ends(self, result: Mapping[str, JsonValue], text: str) -> None:
        self.says(text)

    def close(self) -> None:
        return None


class Live:
    """A display with a bar and a line that are redrawn in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._console = Console(file=terminal(sys.stdout), highlight=False)
        self._live = RichLive(console=self._console, refresh_per_second=8, transient=True)
        self._started = False

    def begins(self, folder: RunFolder, total: int, done: int) -> None:
        self.says(beginning(folder, total, done))
        self._live.start()
        self._started = True

    def progress(self, snapshot: Mapping[str, JsonValue]) -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        bar = ProgressBar(total=snapshot["total"] or 1, completed=snapshot["done"], width=60)
        self._live.update(Group(bar, Text(one_line(line(snapshot)))))

    def step(self, text: str) -> None:
        from rich.spinner import Spinner
        from rich.text import Text

        # As Text: of a string rich would read a name in brackets as markup.
        self._live.update(Spinner("dots", text=Text(one_line(text))))

    def warning(self, text: str) -> None:
        self._console.print(f"warning: {escape(text)}", style="yellow", markup=False, soft_wrap=True)

    def says(self, text: str) -> None:
        self._console.print(escape(text), markup=False, soft_wrap=True)

    def ends(self, result: Mapping[str, JsonValue], text: str) -> None:
        self.close()
        self.says(text)

    def close(self) -> None:
        if self._started:
            self._live.update("")
            self._live.stop()
            self._started = False


class Lines:
    """A display of JSON lines; the field `event` is begins, progress, step, warning or ends."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def begins(self, folder: RunFolder, total: int, done: int) -> None:
        self._write("begins", folder=str(folder.path), total=total, done=done)

    def progress(self, snapshot: Mapping[str, JsonValue]) -> None:
        self._write("progress", **snapshot)

    def step(self, text: str) -> None:
        self._write("step", step=text)

    def warning(self, text: str) -> None:
        self._write("warning", message=text)

    def says(self, text: str) -> None:
        self._write("says", message=text)

    def ends(self, result: Mapping[str, JsonValue], text: str) -> None:
        self._write("ends", **result)

    def close(self) -> None:
        return None

    def _write(self, event: str, **fields: JsonValue) -> None:
        print(json.dumps({"event": event, **fields}, ensure_ascii=False), file=self._out, flush=True)


class SilentDisplay(Silence):
    """A display that shows nothing; errors and the exit status remain."""

    def says(self, text: str) -> None:
        return None

    def ends(self, result: Mapping[str, JsonValue], text: str) -> None:
        return None

    def close(self) -> None:
        return None


def open_display(name: str | None) -> Display:
    """Return the display called `name`; by default live in a terminal that may be coloured, else plain."""
    match name:
        case None | "auto":
            live = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
            return Live() if live else Plain(sys.stdout)
        case "rich":
            return Live()
        case "plain":
            return Plain(sys.stdout)
        case "json":
            return Lines(sys.stdout)
        case "none":
            return SilentDisplay()
    raise UsageError(f"--display {name}: should be rich, plain, json or none")


def beginning(folder: RunFolder, total: int, done: int) -> str:
    """Return the first line: the folder, the number of calls, and how many are answered already."""
    rest = f", {count(done)} of them answered already" if done else ""
    return f"{folder.path}: {count(total, 'call')}{rest}"


def line(snapshot: Mapping[str, JsonValue]) -> str:
    """Return the progress in one line, the most interesting numbers first, without those that are zero."""
    total, done = snapshot["total"], snapshot["done"]
    parts = [f"{count(done)} of {count(total)}"]
    if snapshot.get("ratePerSecond"):
        parts.append(f"{snapshot['ratePerSecond']:g}/s")
    admitted = snapshot.get("admitted")
    parts.append(f"{snapshot['inFlight']} in flight" + (f" of {admitted}" if admitted else ""))
    for key, what in (("rowErrors", "row error"), ("retries", "retry"), ("refused", "refused call")):
        if snapshot.get(key):
            parts.append(count(snapshot[key], what))
    tokens = sum(mapping(snapshot, "tokens").values())
    if tokens:
        parts.append(count(tokens, "token"))
    if snapshot.get("spend"):
        parts.append(f"{snapshot['spend']:.4g} spent")
    if snapshot.get("secondsLeft") and done < total:
        parts.append(f"{duration(snapshot['secondsLeft'])} left")
    if slowest := snapshot.get("slowest"):
        parts.append(f"row {slowest['index']} takes {duration(slowest['seconds'])} so far")
    return ", ".join(parts)
