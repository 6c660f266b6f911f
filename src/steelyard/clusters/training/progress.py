"""Progress reports of programs (`steelyard.progress`), read from their log lines."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

MARK = '{"progress":'
_SHARES = (("step", "total"), ("epoch", "epochs"))


@dataclass(frozen=True)
class Progress:
    """One report."""

    values: Mapping[str, Any]

    @property
    def share(self) -> float | None:
        """0 to 1, where a number of steps, or else of epochs, and their total are given."""
        for done, total in _SHARES:
            of, whole = self.values.get(done), self.values.get(total)
            if isinstance(of, int | float) and isinstance(whole, int | float) and whole > 0:
                return min(max(of / whole, 0.0), 1.0)
        return None

    @property
    def told(self) -> str:
        """Return `description`; clients of earlier versions ask for it by this name."""
        return self.description

    @property
    def description(self) -> str:
        """The report in words: `epoch 2 of 5, step 120 of 1000, loss 0.312`."""
        rest = dict(self.values)
        parts = []
        for done, total in reversed(_SHARES):
            if done in rest:
                of = f" of {number(rest.pop(total))}" if total in rest else ""
                parts.append(f"{done} {number(rest.pop(done))}{of}")
        parts += [f"{name} {number(value)}" for name, value in rest.items()]
        return ", ".join(parts)


def parse(text: str) -> Progress | None:
    """The report in a log line; another program may have begun the line without ending it."""
    start = text.find(MARK)
    if start < 0:
        return None
    try:
        report, _ = json.JSONDecoder().raw_decode(text[start:])
    except ValueError:
        return None
    values = report.get("progress")
    return Progress(values) if isinstance(values, dict) else None


def newest(lines: Iterable[str]) -> Progress | None:
    """The last report in them."""
    report = None
    for line in lines:
        report = parse(line) or report
    return report


class Pace:
    """An estimate of the time left, at the pace so far; a restart from a checkpoint begins the estimate again."""

    def __init__(self) -> None:
        self._first: tuple[datetime, float] | None = None
        self._last: tuple[datetime, float] | None = None

    def see(self, when: datetime, share: float) -> None:
        if self._last is None or share < self._last[1]:
            self._first = (when, share)
        self._last = (when, share)

    @property
    def seconds_left(self) -> float | None:
        """Estimate the time left; None until two reports have shown a pace."""
        if self._first is None or self._last is None:
            return None
        seconds, share = (self._last[0] - self._first[0]).total_seconds(), self._last[1] - self._first[1]
        if seconds < 1 or share <= 0:
            return None
        return (1 - self._last[1]) * seconds / share


def number(value: Any) -> str:
    """Return a number as people write it, with four significant digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)
