"""Measures training jobs through the operator beside a kopf operator: `python -m benchmarks.training [--quick]`.

Prints Markdown tables, then the figures as JSON.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.training.measure import WIDE, Figures, measure, wide

T = TypeVar("T")
SIZES = (100, 1_000, 5_000)
PEER_SIZE = 1_000


def rounds(quick: bool) -> list[tuple[str, int]]:
    if quick:
        return [("kopf", 50), ("steelyard", 50)]
    return [("kopf", PEER_SIZE), *(("steelyard", size) for size in SIZES)]


def main() -> int:
    quick = "--quick" in sys.argv
    widths = {operator: _in_folder(partial(wide, operator)) for operator in ("kopf", "steelyard")}
    found: list[Figures] = []
    for operator, size in rounds(quick):
        found.append(_in_folder(partial(measure, operator, size)))
        print(f"{operator}: {size} at {found[-1].rate:.1f}/s", file=sys.stderr, flush=True)
    print(table(found))
    print(restarts(found))
    print(f"\nOne job of {WIDE} replicas, from its creation to its last Pod: {_widths(widths)}.\n")
    print(verdict(found))
    print(json.dumps({"jobs": [asdict(each) for each in found], "wide": widths}))
    return 0


def _in_folder(work: Callable[[Path], Coroutine[Any, Any, T]]) -> T:
    with tempfile.TemporaryDirectory(prefix="steelyard-benchmark-") as folder:
        return asyncio.run(work(Path(folder)))


def table(found: list[Figures]) -> str:
    lines = [
        "| operator | jobs | all running after | then all succeeded after | jobs/s | CPU ms per job | API writes each "
        "| memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        lines.append(
            f"| {each.operator} | {each.jobs:,} | {each.to_running:.1f} s | {each.to_succeeded:.1f} s "
            f"| {each.rate:.0f} | {1000 * each.processor / each.jobs:.1f} | {each.writes / each.jobs:.1f} "
            f"| {each.memory_mb:.0f} MB |"
        )
    return "\n".join(lines)


def restarts(found: list[Figures]) -> str:
    lines = [
        "\n| operator restarted with | rests after | processor | API writes | memory |",
        "|---|---|---|---|---|",
    ]
    for each in found:
        lines.append(
            f"| {each.operator}, {each.jobs:,} running jobs | {each.restart:.1f} s "
            f"| {each.restart_processor:.1f} s | {each.restart_writes} | {each.restart_memory_mb:.0f} MB |"
        )
    return "\n".join(lines)


def _widths(widths: dict[str, float]) -> str:
    return ", ".join(f"{operator} {seconds:.2f} s" for operator, seconds in widths.items())


def verdict(found: list[Figures]) -> str:
    """The ratios that the aims are about."""
    ours = {each.jobs: each for each in found if each.operator == "steelyard"}
    peer = next(each for each in found if each.operator == "kopf")
    mine = ours[peer.jobs]
    rates = [each.rate for each in ours.values()]
    return (
        f"At {peer.jobs:,}: {mine.rate / peer.rate:.1f} times kopf's rate with "
        f"{peer.processor / mine.processor:.1f} times less processor time; "
        f"the slowest size has {100 * min(rates) / max(rates):.0f} % of the fastest one's rate.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
