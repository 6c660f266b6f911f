"""Measures the operator beside a kopf operator: `python -m benchmarks.operator [--quick | --sizes N …]`.

Prints a Markdown table, then the figures as JSON.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.operator.measure import Figures, measure

SIZES = (100, 1_000, 10_000)
PEER_SIZE = 1_000


def rounds(sizes: Sequence[int]) -> list[tuple[str, int]]:
    """Return the runs: the peer's with one size, beside ours of the same."""
    peer = PEER_SIZE if PEER_SIZE in sizes else max(sizes)
    return [("kopf", peer), *(("steelyard", size) for size in sizes)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator")
    parser.add_argument("--quick", dest="sizes", action="store_const", const=[100], help="whether it works")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="evaluations in each run"
    )
    figures: list[Figures] = []
    for operator, size in rounds(parser.parse_args().sizes):
        with tempfile.TemporaryDirectory(prefix="steelyard-benchmark-") as folder:
            figures.append(measure(operator, size, Path(folder)))
            print(f"{operator}: {size} in {figures[-1].seconds:.1f} s", file=sys.stderr, flush=True)
    print(table(figures))
    print(verdict(figures))
    print(json.dumps([asdict(figure) for figure in figures]))
    return 0


def table(figures: list[Figures]) -> str:
    lines = [
        "| operator | Evaluations | per second | ms each | API writes each | CPU ms per API write | memory, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        lines.append(
            f"| {figure.operator} | {figure.resources:,} | {figure.rate:.0f} | {1000 / figure.rate:.2f} "
            f"| {figure.writes / figure.resources:.1f} | {figure.milliseconds_per_write:.2f} | {figure.memory_mb:.0f} |"
        )
    return "\n".join(lines)


def verdict(figures: list[Figures]) -> str:
    """The ratios that the aims are about."""
    ours = {figure.resources: figure for figure in figures if figure.operator == "steelyard"}
    peer = next(figure for figure in figures if figure.operator == "kopf")
    mine = ours[peer.resources]
    spread = max(figure.rate for figure in ours.values()) / min(figure.rate for figure in ours.values())
    return (
        f"\nAt {peer.resources:,}: {mine.rate / peer.rate:.1f} times kopf's rate with "
        f"{mine.processor_seconds / peer.processor_seconds:.2f} of its processor time, "
        f"{working(mine) / working(peer):.2f} without their starts; "
        f"the rate differs by {100 * (spread - 1):.0f} % over sizes.\n"
    )


def working(figures: Figures) -> float:
    return figures.processor_seconds - figures.starting_seconds


if __name__ == "__main__":
    sys.exit(main())
