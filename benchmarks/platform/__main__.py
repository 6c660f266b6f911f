"""`python -m benchmarks.platform [--million] [--only PART]`: Markdown tables, then one JSON line.

PART is throughput (of the API, on one core), or hops (of workflows through `steelyard up`, with its memory).
"""

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.platform import throughput


def show_throughput(rows: list[throughput.Row]) -> None:
    print(
        "| request | /s | CPU | p50 | p99 | one at a time | p99 | bare, /s | CPU | p50 | p99 | of bare | bytes |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        api, alone, bare = row.api, row.alone, row.bare
        print(
            f"| {row.what} | {api.requests_per_second:,.0f} | {api.processor:.0f} µs "
            f"| {api.p50:.1f} ms | {api.p99:.1f} ms "
            f"| {alone.p50:.2f} ms | {alone.p99:.2f} ms | {bare.requests_per_second:,.0f} | {bare.processor:.0f} µs "
            f"| {bare.p50:.1f} ms | {bare.p99:.1f} ms | {row.share:.0%} | {api.bytes:,} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.platform")
    parser.add_argument("--million", action="store_true", help="also with 1,000,000 entities: 4 GB on disk")
    parser.add_argument("--only", choices=["throughput"])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    arguments = parser.parse_args()
    figures: dict[str, object] = {"load average before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        folder = Path(scratch)
        rows = [
            row
            for count in ([10_000, 1_000_000] if arguments.million else [10_000])
            for row in throughput.measure(folder, count, arguments.seconds)
        ]
        show_throughput(rows)
        figures["throughput"] = [asdict(row) for row in rows]
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
