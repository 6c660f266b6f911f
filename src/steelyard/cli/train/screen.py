"""Displays of a followed job: log lines with the names of replicas, notices, and in a terminal a status line.

Plain ANSI, since log lines may come by the ten thousand.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import IO, Any, Protocol

from steelyard.cli.plain_text import terminal
from steelyard_common.errors import UsageError, escape, one_line
from steelyard_common.types import Json, mapping

COLOURS = ("36", "33", "35", "32", "34", "96", "93", "95", "92", "94")
"""ANSI colours of the replicas, in turn. Red is for what went wrong."""
CLEAR = "\r\x1b[2K"
DRAW_SECONDS = 0.1
PLAIN_SECONDS = 5.0
"""Seconds between two lines of progress where no line can be redrawn."""


class Screen(Protocol):
    """A display of a followed job."""

    def line(self, replica: str, text: str, time: str) -> None: ...
    def status(self, text: str, values: Json) -> None:
        """Show the progress; the newest text counts."""
        ...

    def say(self, text: str, *, bad: bool = False) -> None: ...
    def hold(self, held: bool) -> None:
        """Keep what comes back, so that a question stays in sight; then show it."""
        ...

    def ends(self, result: Json, text: str, *, bad: bool = False) -> None: ...
    def close(self) -> None: ...


class Prefixes:
    """`worker-0 | ` for each replica, as wide as the widest so far, in a colour of its own."""

    def __init__(self, colour: bool) -> None:
        self._colour, self._width, self._known = colour, 0, dict[str, str]()

    def expect(self, names: list[str]) -> None:
        """Replicas that will write, so that their lines begin in one column."""
        self._width = max([self._width, *map(len, names)])
        for name in names:
            self._known.setdefault(name, COLOURS[len(self._known) % len(COLOURS)])

    def find_prefix(self, name: str) -> str:
        self.expect([name])
        text = f"{name.ljust(self._width)} |"
        return f"\x1b[{self._known[name]}m{text}\x1b[0m " if self._colour else f"{text} "


class Plain:
    """Lines only: for pipes, CI and NO_COLOR. Progress is a line now and then."""

    def __init__(
        self, out: IO[str], *, colour: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out, self._colour, self._clock = out, colour, clock
        self.prefixes = Prefixes(colour)
        self._told, self._last = float("-inf"), ""
        self._held: list[str] | None = None

    def line(self, replica: str, text: str, time: str) -> None:
        self._write(f"{self.prefixes.find_prefix(replica)}{escape(text)}\n")

    def status(self, text: str, values: Json) -> None:
        far = values.get("progress")
        if far and text != self._last and self._clock() - self._told >= PLAIN_SECONDS:
            self._told, self._last = self._clock(), text
            self.say(text)

    def say(self, text: str, *, bad: bool = False) -> None:
        self._write(f"{self._bold(escape(text), bad)}\n")

    def hold(self, held: bool) -> None:
        kept, self._held = self._held or [], [] if held else None
        for text in kept:
            self._write(text)

    def ends(self, result: Json, text: str, *, bad: bool = False) -> None:
        self.close()
        self.say(text, bad=bad)

    def close(self) -> None:
        self.hold(False)

    def _bold(self, text: str, bad: bool) -> str:
        if not self._colour:
            return text
        first, newline, rest = text.partition("\n")
        return f"\x1b[{'1;31' if bad else '1'}m{first}\x1b[0m{newline}{rest}"

    def _write(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
            return
        self._out.write(text)
        self._out.flush()


class Live(Plain):
    """Lines scroll, and below them one is redrawn in place."""

    def __init__(self, out: IO[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(out, colour=True, clock=clock)
        self._shown, self._drawn = "", float("-inf")

    def status(self, text: str, values: Json) -> None:
        width = shutil.get_terminal_size().columns - 1
        share = mapping(values, "progress").get("share")
        drawn = f"{bar(share)} {text}" if share is not None else text
        # A line that wraps could not be cleared by a carriage return.
        drawn = one_line(drawn)[:width]
        if self._held is None and drawn != self._shown and self._clock() - self._drawn >= DRAW_SECONDS:
            self._shown, self._drawn = drawn, self._clock()
            self._out.write(f"{CLEAR}\x1b[2m{drawn}\x1b[0m")
            self._out.flush()

    def close(self) -> None:
        super().close()
        if self._shown:
            self._out.write(CLEAR)
            self._out.flush()
            self._shown = ""

    def _write(self, text: str) -> None:
        shown = self._shown if self._held is None else ""
        # One write for all three: between two, the terminal would show a line without its status.
        again = f"\x1b[2m{shown}\x1b[0m" if shown else ""
        super()._write(f"{CLEAR if shown else ''}{text}{again}")


class Lines:
    """One JSON object a line: `event` is line, status, says or ends."""

    def __init__(self, out: IO[str]) -> None:
        self._out, self._last = out, Json()

    def line(self, replica: str, text: str, time: str) -> None:
        self._write("line", replica=replica, time=time, text=text)

    def status(self, text: str, values: Json) -> None:
        if values != self._last:
            self._last = values
            self._write("status", **values)

    def say(self, text: str, *, bad: bool = False) -> None:
        self._write("says", message=text)

    def hold(self, held: bool) -> None:
        return None

    def ends(self, result: Json, text: str, *, bad: bool = False) -> None:
        self._write("ends", **result)

    def close(self) -> None:
        return None

    def _write(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}, ensure_ascii=False), file=self._out, flush=True)


class SilentScreen:
    """Errors and the exit status only."""

    def line(self, replica: str, text: str, time: str) -> None:
        return None

    def status(self, text: str, values: Json) -> None:
        return None

    def say(self, text: str, *, bad: bool = False) -> None:
        return None

    def hold(self, held: bool) -> None:
        return None

    def ends(self, result: Json, text: str, *, bad: bool = False) -> None:
        return None

    def close(self) -> None:
        return None


def bar(share: float) -> str:
    """`━━━━━╸───────────── 27 %`"""
    width = 20
    halves = round(share * width * 2)
    full, half = divmod(halves, 2)
    line = "━" * full + ("╸" if half else "")
    return f"{line}{'─' * (width - len(line))} {share:.0%}".replace("%", " %")


def coloured() -> bool:
    """Return whether this terminal shows colours, unless the user wants none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def open_screen(name: str | None) -> Screen:
    """The display called `name`; by default live in a terminal that may be coloured, else plain. Raises UsageError."""
    match name:
        case None | "auto":
            return Live(terminal(sys.stdout)) if coloured() else Plain(sys.stdout)
        case "live" | "rich":
            return Live(terminal(sys.stdout))
        case "plain":
            return Plain(sys.stdout)
        case "json":
            return Lines(sys.stdout)
        case "none":
            return SilentScreen()
    raise UsageError(f"--display {name}: should be live, plain, json or none")
