"""Measures the operator beside a kopf operator: `python -m benchmarks.operator [--quick]`.

Prints a Markdown table, then the figures as JSON.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.operator.measure import Figures, measure

SIZES = (100, 1_000, 10_000)
PEER_SIZE = 1_000


def rounds(quick: bool) -> list[tuple[str, int]]:
    if quick:
        return [("steelyard", 100), ("kopf", 100)]
    return [("kopf", PEER_SIZE), *(("steelyard", size) for size in SIZES)]


def main() -> int:
    figures: list[Figures] = []
    for operator, size in rounds("--quick" in sys.argv):
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
        f"{peer.processor_seconds / mine.processor_seconds:.1f} times less processor time; "
        f"the rate differs by {100 * (spread - 1):.0f} % over sizes.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
