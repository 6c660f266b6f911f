"""Plan of the measurements: each line of the tables as a tool and its load. A line that is not measured stays
empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.evaluation.measured import Load
from benchmarks.evaluation.tools import AUTO, BARE_LOOP, COMMAND, ENGINE, INSPECT, LM_EVAL, PEERS

ROWS, QUICK_ROWS = 10_000, 1_000
SLOW_ROWS, QUICK_SLOW_ROWS = {INSPECT: 2_000}, 200
"""Rows for tools that take minutes for 10,000."""
REPEATS = 3


@dataclass(frozen=True)
class Line:
    """One line of the table of `group`."""

    group: str
    tool: str
    load: Load
    repeats: int = REPEATS

    @property
    def name(self) -> str:
        return f"{self.group}: {self.tool}, {self.load.rows:,} rows, {self.load.in_flight} in flight"


GROUPS = {
    "rate": "50 ms",
    "zero": "0 ms, Parquet to durable output",
    "memory": "Memory at 0 ms",
    "start": "Start to first call",
    "half": "A server that admits half of what is asked",
    "replicas": "Four replicas",
    "scoring": "Scoring",
}


def lines(*, quick: bool, peers: bool) -> list[Line]:
    """All but scoring, which asks nothing."""
    rows = QUICK_ROWS if quick else ROWS
    admitted = {ENGINE: 0, COMMAND: 0, AUTO: 0, BARE_LOOP: 0} | (dict.fromkeys(PEERS, 0) if peers else {})
    planned = [
        *(Line("rate", tool, Load(rows, flights)) for flights in (64, 256) for tool in _without(AUTO)),
        *(Line("zero", tool, Load(rows, 64, 0)) for tool in (ENGINE, COMMAND, BARE_LOOP, LM_EVAL)),
        *(
            Line("memory", tool, Load(size, 64, 0), 1)
            for size in ((rows, 10 * rows) if quick else (rows, 10 * rows, 100 * rows))
            for tool in (ENGINE, COMMAND)
        ),
        *(Line("start", tool, Load(64, 64)) for tool in _without(ENGINE, AUTO)),
        *(Line("half", tool, Load(rows, 64, admits=32)) for tool in _without(BARE_LOOP)),
        *(Line("replicas", tool, Load(rows, 64, replicas=4)) for tool in (ENGINE, COMMAND, BARE_LOOP)),
    ]
    slow = QUICK_SLOW_ROWS if quick else None
    return [_bounded(line, slow, quick) for line in planned if line.tool in admitted]


def _without(*tools: str) -> Sequence[str]:
    return [tool for tool in (ENGINE, COMMAND, AUTO, BARE_LOOP, *PEERS) if tool not in tools]


def _bounded(line: Line, slow: int | None, quick: bool) -> Line:
    most = SLOW_ROWS.get(line.tool, line.load.rows) if slow is None else slow if line.tool in PEERS else None
    load = line.load if most is None else replace(line.load, rows=min(line.load.rows, most))
    once = quick or line.tool in PEERS
    return replace(line, load=load, repeats=1 if once else line.repeats)
