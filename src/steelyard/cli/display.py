"""Displays of the progress of `steelyard run`: a live table in a terminal, plain lines elsewhere.

A display is given the whole list of rows each time; what changed is for it to find out.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from steelyard.cli.plain_text import terminal
from steelyard_common.errors import UsageError, escape, one_line


@dataclass(frozen=True)
class Row:
    """One resource: what it is, where it stands, and how far it has come."""

    kind: str
    name: str
    status: str = "waiting"
    detail: str = ""
    share: float | None = None  # 0 to 1, where it is known
    seconds: float = 0.0


class Display(Protocol):
    def show(self, rows: Sequence[Row]) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


class PlainDisplay:
    """One line per change and resource, at most one a second for mere progress; for pipes, CI and NO_COLOR."""

    def __init__(self, out: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._shown: dict[str, tuple[Row, float]] = {}

    def show(self, rows: Sequence[Row]) -> None:
        for row in rows:
            before, when = self._shown.get(row.name, (None, 0.0))
            now = self._clock()
            same_state = before is not None and before.status == row.status
            if row.status == "waiting" or (same_state and (_text(before) == _text(row) or now - when < 1.0)):
                continue
            self._shown[row.name] = (row, now)
            self.say(f"{row.seconds:6.1f} s  {row.kind:17} {_text(row)}")

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def close(self) -> None:
        return None


class LiveDisplay:
    """A table that rich redraws in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=terminal(sys.stdout), highlight=False)
        self._live = Live(console=self._console, refresh_per_second=8, transient=False)
        self._live.start()

    def show(self, rows: Sequence[Row]) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        colours = {"Complete": "green", "Ready": "green", "Failed": "red", "Error": "red", "waiting": "dim"}
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("resource", "status", "progress", "", "time"):
            table.add_column(heading, style="dim" if heading == "time" else None, header_style="dim")
        for row in rows:
            bar = ProgressBar(total=1.0, completed=row.share, width=20) if row.share is not None else ""
            seconds = f"{row.seconds:.1f} s" if row.seconds else ""
            status = Text(row.status, style=colours.get(row.status, "yellow"))
            # As text: names and messages are of users and programs, and rich would read [/data] as markup.
            table.add_row(row.kind, status, bar, Text(one_line(row.detail)), seconds)
        self._live.update(table)

    def say(self, text: str) -> None:
        self._console.print(escape(text), markup=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()


class NoDisplay:
    """Errors and the exit status only."""

    def show(self, rows: Sequence[Row]) -> None:
        return None

    def say(self, text: str) -> None:
        return None

    def close(self) -> None:
        return None


def open_display(name: str) -> Display:
    """The display called `name`; `auto` is live in a terminal that may be coloured, else plain.

    Raises UsageError for any other name.
    """
    import os

    match name:
        case "auto":
            # NO_COLOR is the convention of no-color.org; a dumb terminal cannot move its cursor.
            live = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
            return LiveDisplay() if live else PlainDisplay(sys.stdout)
        case "rich":
            return LiveDisplay()
        case "plain":
            return PlainDisplay(sys.stdout)
        case "none":
            return NoDisplay()
    raise UsageError(f"--display {name}: should be auto, rich, plain or none")


def _text(row: Row | None) -> str:
    return f"{row.status}{': ' if row.detail else ''}{row.detail}" if row else ""
