"""Measures training jobs through the operator beside a kopf operator: `python -m benchmarks.training`.

Prints Markdown tables, then the figures as JSON.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.training.measure import WIDE, Figures, measure, wide

T = TypeVar("T")
SIZES = (100, 1_000, 5_000)
PEER_SIZE = 1_000


def rounds(sizes: Sequence[int]) -> list[tuple[str, int]]:
    """Return the runs: the peer's with one size, beside ours of the same."""
    peer = PEER_SIZE if PEER_SIZE in sizes else max(sizes)
    return [("kopf", peer), *(("steelyard", size) for size in sizes)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training")
    parser.add_argument("--quick", dest="sizes", action="store_const", const=[50], help="whether it works")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="jobs in each run")
    sizes: Sequence[int] = parser.parse_args().sizes
    widths = {operator: _in_folder(partial(wide, operator)) for operator in ("kopf", "steelyard")}
    figures: list[Figures] = []
    for operator, size in rounds(sizes):
        figures.append(_in_folder(partial(measure, operator, size)))
        print(f"{operator}: {size} at {figures[-1].rate:.1f}/s", file=sys.stderr, flush=True)
    print(table(figures))
    print(restarts(figures))
    print(f"\nOne job of {WIDE} replicas, from its creation to its last Pod: {_widths(widths)}.\n")
    print(verdict(figures))
    print(json.dumps({"jobs": [asdict(figure) for figure in figures], "wide": widths}))
    return 0


def _in_folder(work: Callable[[Path], Coroutine[Any, Any, T]]) -> T:
    with tempfile.TemporaryDirectory(prefix="steelyard-benchmark-") as folder:
        return asyncio.run(work(Path(folder)))


def table(figures: list[Figures]) -> str:
    lines = [
        "| operator | jobs | all running after | then all succeeded after | jobs/s | CPU ms per job | API writes each "
        "| memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        lines.append(
            f"| {figure.operator} | {figure.jobs:,} | {figure.to_running:.1f} s | {figure.to_succeeded:.1f} s "
            f"| {figure.rate:.0f} | {1000 * figure.processor / figure.jobs:.1f} | {figure.writes / figure.jobs:.1f} "
            f"| {figure.memory_mb:.0f} MB |"
        )
    return "\n".join(lines)


def restarts(figures: list[Figures]) -> str:
    lines = [
        "\n| operator restarted with | rests after | processor | API writes | memory |",
        "|---|---|---|---|---|",
    ]
    for figure in figures:
        lines.append(
            f"| {figure.operator}, {figure.jobs:,} running jobs | {figure.restart:.1f} s "
            f"| {figure.restart_processor:.1f} s | {figure.restart_writes} | {figure.restart_memory_mb:.0f} MB |"
        )
    return "\n".join(lines)


def _widths(widths: dict[str, float]) -> str:
    return ", ".join(f"{operator} {seconds:.2f} s" for operator, seconds in widths.items())


def verdict(figures: list[Figures]) -> str:
    """The ratios that the aims are about."""
    ours = {figure.jobs: figure for figure in figures if figure.operator == "steelyard"}
    peer = next(figure for figure in figures if figure.operator == "kopf")
    mine = ours[peer.jobs]
    rates = [figure.rate for figure in ours.values()]
    return (
        f"At {peer.jobs:,}: {mine.rate / peer.rate:.1f} times kopf's rate with "
        f"{mine.processor / peer.processor:.2f} of its processor time; "
        f"the slowest size has {100 * min(rates) / max(rates):.0f} % of the fastest one's rate.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
