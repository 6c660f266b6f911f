"""`python -m benchmarks.kubernetes [--jobs N] [--crowd N]`: Jobs, requests beside a real server, and a crowd of Jobs.

The real one (kube-apiserver, etcd that waits for the disk) is built by `python -m tests.engines.build` and left out
where it is not there. `--crowd 0` leaves the crowd out.
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.kubernetes.crowd import ServerSize, crowd
from benchmarks.kubernetes.jobs import Latency, Rate, one_by_one, together
from benchmarks.kubernetes.rates import Row, rates
from benchmarks.kubernetes.running import processor_of, running, tree
from tests.engines.build import cache
from tests.engines.control_plane import control_plane

REAL = ("etcd", "kube-apiserver")


@dataclass(frozen=True)
class MeasurementSizes:
    """Sizes of the measurements."""

    jobs: int
    requests: int
    crowd: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--crowd", type=int, default=10_000)
    given = parser.parse_args()
    chosen = MeasurementSizes(given.jobs, given.requests, given.crowd)
    figures: dict[str, object] = {"load": os.getloadavg()}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "jobs") as server:
        single, many = (
            asyncio.run(one_by_one(server, chosen.jobs // 2)),
            asyncio.run(together(server, chosen.jobs)),
        )
    print(jobs_table(single, many))
    figures |= {"one by one": asdict(single), "together": asdict(many)}
    servers = both_servers(chosen.requests)
    print(rates_table(servers))
    figures["requests"] = {name: [asdict(row) for row in rows] for name, rows in servers.items()}
    if chosen.crowd:
        with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "crowd") as server:
            held = asyncio.run(crowd(server, chosen.crowd))
        print(crowd_table(held))
        figures["crowd"] = [asdict(entry) for entry in held]
    print(json.dumps(figures))


def both_servers(count: int) -> dict[str, list[Row]]:
    servers = {}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "rates") as server:
        servers["embedded"] = asyncio.run(rates(server.state.kubeconfig, server.processor, count))
    if (cache() / "bin" / "kube-apiserver").exists():
        with (
            tempfile.TemporaryDirectory() as folder,
            control_plane(cache() / "bin", Path(folder), durable=True) as kubeconfig,
        ):
            servers["real"] = asyncio.run(rates(kubeconfig, processor_of_the_real, count))
    return servers


def processor_of_the_real() -> float:
    """Processor seconds of the real API server and its etcd, which are children of this process."""
    pids = [pid for pid in tree(os.getpid()) if Path(f"/proc/{pid}/comm").read_text().strip() in REAL]
    return sum(processor_of(pid) for pid in pids)


def jobs_table(single: Latency, many: Rate) -> str:
    lines = [
        f"| {single.jobs} one by one | {single.median:.0f} ms | {single.worst:.0f} ms | | {_used(single)} |",
        f"| {many.jobs} at once | | | {many.rate:.1f} | {_used(many)} |",
    ]
    return _table(
        "Jobs | p50 | p99 | /s | processor each | of it the Kubernetes process | requests each", lines
    )


def _used(figures: Latency | Rate) -> str:
    return f"{figures.processor:.1f} ms | {figures.own:.1f} ms | {figures.requests:.1f}"


def rates_table(servers: dict[str, list[Row]]) -> str:
    lines = [
        f"| {row.what} | {name} | {row.rate:,.0f} | {row.processor:.2f} ms | {row.median:.1f} ms | {row.worst:.1f} ms |"
        for name, rows in servers.items()
        for row in rows
    ]
    return _table("request | server | /s | processor | p50 | p99", lines)


def crowd_table(held: Iterable[ServerSize]) -> str:
    lines = [
        f"| {entry.when} | {entry.memory:.0f} MB | {entry.stored:.1f} MB | {entry.seconds:.0f} s |"
        for entry in held
    ]
    return _table("when | memory | database | seconds", lines)


def _table(head: str, lines: list[str]) -> str:
    return "\n".join([f"| {head} |", "|---" * (head.count("|") + 1) + "|", *lines, ""])


if __name__ == "__main__":
    main()
