"""`python -m benchmarks.evaluation [--rows N] [--memory]`: Markdown, then one JSON line.

The server runs in its own process on one core, the client is pinned to the other where there are two. Every figure is
of this run; a wall of the whole loop, from opening the dataset to the last durable part, is compared with the ideal.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.evaluation.client import write_prompts

REPEATS = 3


@dataclass(frozen=True)
class Case:
    """One thing to measure."""

    what: str
    rows: int
    in_flight: int
    latency_ms: float

    @property
    def ideal_seconds(self) -> float:
        return self.rows / self.in_flight * self.latency_ms / 1000


@dataclass(frozen=True)
class Result:
    """What came out: the best of a few runs for time, the worst for memory."""

    case: Case
    command_seconds: float
    seconds: float
    rows_per_second: float
    share_of_ideal: float | None
    cpu_us_per_row: float
    peak_mb: float


def cores() -> tuple[list[str], list[str]]:
    """Command prefixes that pin the server and the client to cores of their own."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        return [], []
    return ["taskset", "-c", str(available[0])], ["taskset", "-c", str(available[1])]


@contextlib.contextmanager
def server(latency_ms: float) -> Iterator[str]:
    command = [*cores()[0], sys.executable, "-m", "benchmarks.evaluation.server", str(latency_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.stdin.close()


def run(case: Case, folder: Path, repeats: int) -> Result:
    with server(case.latency_ms) as url:
        command = [*cores()[1], sys.executable, "-m", "benchmarks.evaluation.client"]
        command += [case.what, url, str(folder), str(case.in_flight)]
        measured = []
        for _ in range(repeats):
            began = time.monotonic()
            line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=1200).stdout
            measured.append(json.loads(line) | {"command": time.monotonic() - began})
    best = min(measured, key=lambda each: float(each["seconds"]))
    return Result(
        case=case,
        command_seconds=round(best["command"], 2),
        seconds=round(best["seconds"], 2),
        rows_per_second=round(case.rows / best["seconds"]),
        share_of_ideal=round(case.ideal_seconds / best["seconds"], 3) if case.latency_ms else None,
        cpu_us_per_row=round(1e6 * best["cpu_seconds"] / case.rows, 1),
        peak_mb=round(max(each["peak_mb"] for each in measured), 1),
    )


def show(results: list[Result]) -> None:
    print("| what | rows | in flight | server | seconds | command | rows/s | of ideal | CPU/row | peak |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for each in results:
        case = each.case
        share = "" if each.share_of_ideal is None else f"{100 * each.share_of_ideal:.1f} %"
        print(
            f"| {case.what} | {case.rows:,} | {case.in_flight} | {case.latency_ms:g} ms | {each.seconds:.2f} "
            f"| {each.command_seconds:.2f} | {each.rows_per_second:,} | {share} | {each.cpu_us_per_row:.0f} µs "
            f"| {each.peak_mb:.0f} MB |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--memory", action="store_true", help="also 100,000 and 1,000,000 rows: minutes")
    arguments = parser.parse_args()
    cases = [
        Case(what, arguments.rows, in_flight, latency)
        for in_flight, latency in ((64, 50.0), (256, 50.0), (64, 0.0))
        for what in ("engine", "bare")
    ]
    results = []
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        folder = Path(scratch)
        write_prompts(folder / "dataset", arguments.rows)
        results += [run(case, folder, REPEATS) for case in cases]
        for rows in (100_000, 1_000_000) if arguments.memory else ():
            write_prompts(folder / f"{rows}" / "dataset", rows)
            results.append(run(Case("engine", rows, 64, 0.0), folder / f"{rows}", 1))
    show(results)
    print(json.dumps([asdict(each) for each in results]))


if __name__ == "__main__":
    main()
