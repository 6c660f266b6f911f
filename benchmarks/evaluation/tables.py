"""The figures as Markdown: first the aims, then everything side by side, one table for each group."""

from collections.abc import Callable, Mapping, Sequence

from benchmarks.evaluation.measured import Result
from benchmarks.evaluation.plan import GROUPS, Line
from benchmarks.evaluation.scoring import FEW, Scoring
from benchmarks.evaluation.tools import AUTO, COMMAND, ENGINE, version
from steelyard_common.types import JsonValue

Found = Mapping[Line, Result]
Column = tuple[str, Callable[[Line, Result], str]]


def figures(result: Result) -> dict[str, JsonValue]:
    """Return the figures for the JSON line."""
    served = bool(result.asked)
    return {
        "exit": result.exit,
        "wallSeconds": round(result.wall, 3),
        "cpuMicrosecondsPerRow": round(result.cpu_us_per_row, 1),
        "peakMB": round(result.peak_mb, 1),
        "asked": result.asked,
        "answered": result.answered,
        "refusedShare": round(result.refused_share, 4),
        "ofIdeal": round(result.of_ideal, 4) if served and result.load.latency_ms else None,
        "busy": round(result.busy, 4) if served and result.load.latency_ms else None,
        "firstCallSeconds": round(result.first_call, 3) if served else None,
        "loop": {name: value for name, value in result.facts.items() if name != "began"},
        "serverCpuSeconds": round(result.server["cpu"], 3),
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _micro(result: Result) -> str:
    us = result.cpu_us_per_row
    return f"{us:.0f} µs" if us < 1000 else f"{us / 1000:.1f} ms"


def _loop(result: Result) -> float:
    """Seconds of the work alone where the command says them, else of the whole command."""
    return float(result.facts.get("seconds", result.wall))


_WALL: Column = ("command", lambda _, result: _seconds(result.wall))
_IDEAL: Column = ("of ideal", lambda _, result: _percent(result.of_ideal))
_CPU: Column = ("CPU each", lambda _, result: _micro(result))
_PEAK: Column = ("peak", lambda _, result: f"{result.peak_mb:.0f} MB")
_ANSWERED: Column = ("answered", lambda _, result: f"{result.answered:,}")
_FLIGHTS: Column = ("in flight", lambda line, _: str(line.load.in_flight))
_EXIT: Column = ("exit", lambda _, result: str(result.exit))

COLUMNS: Mapping[str, Sequence[Column]] = {
    "rate": (
        ("ideal", lambda line, _: _seconds(line.load.ideal_seconds)),
        _WALL,
        ("beside ideal", lambda line, result: f"{result.wall / line.load.ideal_seconds:.2f}"),
        _IDEAL,
        _CPU,
        _PEAK,
    ),
    "zero": (
        ("seconds", lambda _, result: _seconds(_loop(result))),
        _WALL,
        ("rows/s", lambda line, result: f"{line.load.rows / _loop(result):,.0f}"),
        _CPU,
    ),
    "memory": (_WALL, _PEAK, _CPU),
    "start": (("first call after", lambda _, result: _seconds(result.first_call)), _WALL),
    "half": (
        _EXIT,
        _ANSWERED,
        ("of the admitted rate", lambda _, result: _percent(result.of_ideal)),
        ("refused", lambda _, result: _percent(result.refused_share)),
        _WALL,
    ),
    "replicas": (("slots busy", lambda _, result: _percent(result.busy)), _IDEAL, _WALL),
}


def group(name: str, planned: Sequence[Line], results: Found) -> str:
    """Every possible line; lines that this run did not measure have no figures."""
    columns = COLUMNS[name]
    titles = ["who", "rows", "in flight", *(title for title, _ in columns)]
    rows = [f"\n## {GROUPS[name]}\n", _row(titles), _row(["---"] * len(titles))]
    for line in (line for line in planned if line.group == name):
        result = results.get(line)
        label = f"{line.tool} {version(line.tool)}".strip()
        rows.append(
            _row([label, f"{line.load.rows:,}", str(line.load.in_flight), *_cells(line, result, columns)])
        )
    return "\n".join(rows)


def _cells(line: Line, result: Result | None, columns: Sequence[Column]) -> list[str]:
    if result is None:
        return [""] * len(columns)
    if not result.answered:
        return [f"exit {result.exit}, nothing answered", *[""] * (len(columns) - 1)]
    cells = [show(line, result) for _, show in columns]
    if result.exit and _EXIT not in columns:
        cells[0] += f" (exit {result.exit})"
    return cells


def scoring(scored: Scoring | None) -> str:
    titles = ["rows", "`eval score`", f"the same for {FEW} rows", "beyond that", "beyond a bare interpreter"]
    cells = [""] * len(titles)
    if scored is not None:
        seconds = (scored.command, scored.few, scored.beyond_start, scored.beyond_interpreter)
        cells = [f"{scored.rows:,}", *map(_seconds, seconds)]
    return "\n".join([f"\n## {GROUPS['scoring']}\n", _row(titles), _row(["---"] * len(titles)), _row(cells)])


def aims(results: Found, scored: Scoring | None) -> str:
    """The aims, each beside what this run found."""
    titles = ["what", "aim", "found"]
    return "\n".join([_row(titles), _row(["---"] * 3), *(_row(cells) for cells in _aims(results, scored))])


def _aims(measured: Found, scored: Scoring | None) -> list[list[str]]:
    def of(group: str, tool: str, show: Callable[[Result], str], nth: int = 0) -> str:
        results = [measured[line] for line in measured if line.group == group and line.tool == tool]
        return show(results[nth]) if nth < len(results) and results[nth].answered else ""

    def growth(tool: str) -> str:
        peaks = {
            line.load.rows: measured[line].peak_mb
            for line in measured
            if (line.group, line.tool) == ("memory", tool)
        }
        sizes = sorted(peaks)[-2:]
        return (
            f"{peaks[sizes[1]] / peaks[sizes[0]]:.2f} ({sizes[1]:,} beside {sizes[0]:,})"
            if len(sizes) > 1
            else ""
        )

    def both(show: Callable[[str], str]) -> str:
        engine, command = show(ENGINE), show(COMMAND)
        return f"{engine} engine, {command} command" if engine and command else engine or command

    def ideal(result: Result) -> str:
        return _percent(result.of_ideal)

    def half(result: Result) -> str:
        return f"{_percent(result.of_ideal)}, {_percent(result.refused_share)} refused"

    def loop(result: Result) -> str:
        return f"{result.loop_cpu_us_per_row:.0f} µs"

    def peak(result: Result) -> str:
        return f"{result.peak_mb:.0f} MB"

    beside = of("rate", COMMAND, lambda result: f"{result.wall / result.load.ideal_seconds:.3f}")
    rows = of("zero", ENGINE, lambda result: f"{result.load.rows / _loop(result):,.0f}")
    return [
        ["of ideal, 64 in flight, 50 ms", "95 %", both(lambda tool: of("rate", tool, ideal))],
        ["of ideal, 256 in flight, 50 ms", "95 %", both(lambda tool: of("rate", tool, ideal, 1))],
        ["whole command beside ideal, 64 in flight", "1.1", beside],
        ["rows/s and core, 0 ms, Parquet to durable output", "10,000 (20,000)", rows],
        ["CPU per row, 50 ms, durable, without start", "130 µs (60 µs)", of("rate", ENGINE, loop)],
        ["peak at 10,000 rows", "200 MB", both(lambda tool: of("rate", tool, peak))],
        ["peak, ten times the rows", "1.1", both(growth)],
        ["start to first call", "1 s", of("start", COMMAND, lambda result: _seconds(result.first_call))],
        ["half admitted: of that rate, and refused", "80 %, 5 %", of("half", COMMAND, half)],
        ["the same, not told how many", "80 %, 5 %", of("half", AUTO, half)],
        [
            "4 replicas: slots busy",
            "98 %",
            both(lambda tool: of("replicas", tool, lambda r: _percent(r.busy))),
        ],
        ["scoring, beyond start-up", "1 s", "" if scored is None else _seconds(scored.beyond_start)],
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
