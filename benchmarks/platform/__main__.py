"""`python -m benchmarks.platform [--million] [--only PART]`: Markdown tables, then one JSON line.

PART is throughput (of the API, on one core), or hops (of workflows through `steelyard up`, with its memory). Two more
are measured only when asked for; their servers share this machine's cores: engines (hops on Kafka, PostgreSQL and S3),
and servers (throughput on files and on Kafka, PostgreSQL, S3 and MongoDB's protocol, beside the drivers of these).
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.platform import hops, throughput
from benchmarks.platform.residence import Residence, busy, idle
from steelyard.local.detached import UpOptions, start_detached, stop
from steelyard.local.state import StateDir


def show_throughput(rows: Sequence[throughput.Row]) -> None:
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


def show_hops(results: Sequence[hops.Hops]) -> None:
    print(
        "\n| work, ms (p50 / p99) | count | /s | create → answered | create → visible | → Admitted | → ended |"
    )
    print("|---|---|---|---|---|---|---|")
    for hop in results:
        print(
            f"| {hop.what} | {hop.count} | {hop.per_second:.1f} | {hop.answered} | {hop.visible} "
            f"| {hop.admitted or ''} | {hop.ended or ''} |"
        )


def show_residence(results: Mapping[str, Mapping[str, Residence]]) -> None:
    print("\n| process | idle | CPU | busy, at most | CPU | afterwards | CPU |")
    print("|---|---|---|---|---|---|---|")
    for name in results["idle"]:
        cells = [parts[name] for parts in results.values()]
        print(
            f"| {name} | {' | '.join(f'{cell.memory:.0f} MB | {cell.processor:.1f} %' for cell in cells)} |"
        )


def measure_throughput(folder: Path, arguments: argparse.Namespace) -> dict[str, object]:
    counts = [10_000, 1_000_000] if arguments.million else [10_000]
    rows = [row for count in counts for row in throughput.measure(folder, count, arguments.seconds)]
    show_throughput(rows)
    return {"throughput": [asdict(row) for row in rows]}


def measure_hops(
    folder: Path, arguments: argparse.Namespace, settings: Path | None = None
) -> dict[str, object]:
    state = StateDir(folder / ("engines" if settings else "up"))
    try:
        ready = start_detached(state.path, UpOptions(settings=settings))
        time.sleep(5)
        residences = {"idle": idle(state)}
        with busy(state) as working:
            measured = asyncio.run(hops.measure(state, ready, folder, arguments.count))
        residences |= {"busy": working.residences(), "afterwards": idle(state)}
    finally:
        stop(state.path)
    show_hops(measured)
    show_residence(residences)
    plain = {when: {name: asdict(part) for name, part in parts.items()} for when, parts in residences.items()}
    return {"hops": [asdict(hop) for hop in measured], "processes": plain}


def measure_engines(folder: Path, arguments: argparse.Namespace) -> dict[str, object]:
    from tests.engines.services import together

    with together.services() as services:
        settings = folder / "engines.toml"
        os.environ |= together.write_settings(settings, services)
        # The benchmark watches the view's file. The test server of MongoDB's protocol takes 90 ms for a query.
        (folder / "engines").mkdir()
        lines = [line for line in settings.read_text().splitlines() if not line.startswith("view =")]
        settings.write_text("\n".join([f'view = "sqlite:{folder / "engines" / "view.db"}"', *lines]))
        command = [sys.executable, "-m", "steelyard.cli.main", "config", "init", "--settings", str(settings)]
        subprocess.run(command, check=True)
        return {
            f"{name}, on servers": part for name, part in measure_hops(folder, arguments, settings).items()
        }


def measure_servers(folder: Path, arguments: argparse.Namespace) -> dict[str, object]:
    from benchmarks.platform import servers

    rows = servers.measure(folder, arguments.entities, arguments.seconds)
    print(
        "| request | on files, /s | one at a time | on servers, /s | one at a time | bare driver, /s | one at a time |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        parts = [(api.requests_per_second, alone.p50) for api, alone in (row.files, row.served)]
        parts += [(row.bare.per_second, row.bare.p50)] if row.bare else []
        cells = [f"{rate:,.0f} | {p50:.2f} ms" for rate, p50 in parts] + ([] if row.bare else [" | "])
        print(f"| {row.what} | {' | '.join(cells)} |")
    return {"servers": [asdict(row) for row in rows]}


PARTS = {
    "throughput": measure_throughput,
    "hops": measure_hops,
    "engines": measure_engines,
    "servers": measure_servers,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.platform")
    parser.add_argument("--million", action="store_true", help="also with 1,000,000 entities: 4 GB on disk")
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument(
        "--count", type=int, default=50, help="evaluations; of the cheaper work four times as many"
    )
    parser.add_argument("--entities", type=int, default=10_000, help="in the view of the part `servers`")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left running
    figures: dict[str, object] = {"load average before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as folder:
        for name in [arguments.only] if arguments.only else ("throughput", "hops"):
            figures |= PARTS[name](Path(folder), arguments)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
