"""`python -m benchmarks --short`: a short form of each benchmark that has a peer, as a ratio of processor times.

Ours and the peer's runs take turns. Other work on the machine only adds processor time, to both alike, so that of
each side the least run counts; rates and waiting times say too much of the machine. `ratios.json` holds medians of
several measurements. A ratio that has fallen by more than a quarter is measured again, and fails when it is so with all
runs of both times.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.evaluation import measured as evaluation
from benchmarks.evaluation.tools import bare, engine
from benchmarks.imports.__main__ import measure as import_program
from benchmarks.operator.measure import measure as run_operator
from benchmarks.platform import throughput
from benchmarks.platform.load import Load
from benchmarks.platform.pinned import Server, api_server, bare_server, measured
from benchmarks.training.measure import bring_up
from benchmarks.views.__main__ import fill as fill_view
from benchmarks.views.__main__ import hexadecimal, open_bare
from steelyard.local.files import prepare
from steelyard.local.state import StateDir
from steelyard.views.sqlite.view import SqliteView

RECORD = Path(__file__).parent / "ratios.json"
ALLOWED = 0.75
"""Share of the recorded ratio below which a measurement fails."""
EVALUATIONS, JOBS, ROWS, ENTITIES, GETS, SECONDS = 100, 60, 10_000, 2_000, 5_000, 1.0

PATIENCE = 180.0
"""Seconds for a run; on a busy machine kopf may handle a change twice, and then never come to an end."""

Run = Callable[[], float]
"""Runs one side once, and returns its processor time; raises TimeoutError where it does not end."""


@dataclass(frozen=True)
class Comparison:
    """One benchmark: what it measures, beside which peer, and how its two sides are made in a scratch folder."""

    name: str
    peer: str
    unit: str
    rounds: int
    sides: Callable[[Path, ExitStack], tuple[Run, Run]]
    """Make the runs of ours and of the peer; what they need ends with the stack."""


@dataclass
class Times:
    """Processor times of the runs of both sides."""

    ours: list[float] = field(default_factory=list)
    peers: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Peer's processor time beside ours: 2 means that ours takes half of it."""
        return min(self.peers) / min(self.ours)


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="steelyard-benchmark-") as folder:
        yield Path(folder)


def operators(_: Path, __: ExitStack) -> tuple[Run, Run]:
    def run(name: str) -> float:
        with scratch() as folder:
            figures = run_operator(name, EVALUATIONS, folder, PATIENCE)
        return (figures.processor_seconds - figures.starting_seconds) / EVALUATIONS

    return partial(run, "steelyard"), partial(run, "kopf")


def training(_: Path, __: ExitStack) -> tuple[Run, Run]:
    def run(name: str) -> float:
        with scratch() as folder:
            return asyncio.run(bring_up(name, JOBS, folder)) / JOBS

    return partial(run, "steelyard"), partial(run, "kopf")


def evaluations(folder: Path, _: ExitStack) -> tuple[Run, Run]:
    writing = (sys.executable, "-m", "benchmarks.evaluation.prompts", str(folder), str(ROWS))
    subprocess.run(writing, check=True)
    load = evaluation.Load(ROWS, latency_ms=0)

    def run(command: evaluation.Command) -> float:
        result = evaluation.run(command, load)
        if result.exit or result.answered != ROWS:
            raise SystemExit(f"of {ROWS} rows {result.answered} were answered, exit status {result.exit}")
        return result.loop_cpu_us_per_row / 1e6

    return lambda: run(engine(folder, load)), lambda: run(bare(folder, load))


def views(folder: Path, stack: ExitStack) -> tuple[Run, Run]:
    runner = stack.enter_context(asyncio.Runner())
    view = runner.run(SqliteView.open(folder / "view.db"))
    stack.callback(lambda: runner.run(view.close()))
    runner.run(fill_view(view, ENTITIES))
    look_up = open_bare(folder, ENTITIES)
    ids = [hexadecimal("e", number * 7907 % ENTITIES) for number in range(GETS)]

    async def get_all() -> None:
        for id in ids:
            await view.get("Evaluation", id)

    def ours() -> float:
        began = time.process_time()
        runner.run(get_all())
        return (time.process_time() - began) / GETS

    def peers() -> float:
        began = time.process_time()
        for id in ids:
            look_up(id)
        return (time.process_time() - began) / GETS

    return ours, peers


def api(kind: str, folder: Path, stack: ExitStack) -> tuple[Run, Run]:
    state = StateDir(folder / "api")
    prepare(state)
    server, token = stack.enter_context(api_server(state))
    member = asyncio.run(throughput.fill(state, ENTITIES, None))
    get = next(throughput.reads(ENTITIES, token, member))
    creates = (throughput.creates(token, f"round-{number}") for number in count())
    first = get if kind == "get" else next(creates)
    bare = stack.enter_context(bare_server(throughput.answer_to(server.port, first.requests[0]), folder))

    def run(server: Server) -> float:
        requests = get.requests if kind == "get" else next(creates).requests
        load = Load(server.port, server.pid, requests, throughput.CONNECTIONS, SECONDS, SECONDS)
        return measured(load, folder).processor / 1e6

    return partial(run, server), partial(run, bare)


def imports(_: Path, __: ExitStack) -> tuple[Run, Run]:
    def run(program: str) -> float:
        return import_program(("-c", program))[0]

    return partial(run, "import steelyard.client"), partial(run, "import numpy, pyarrow, pydantic, httpx")


COMPARISONS = (
    Comparison("operator", "kopf", "an evaluation", 3, operators),
    Comparison("training", "kopf", "a training job", 3, training),
    Comparison("evaluation", "a bare aiohttp loop", "a row", 4, evaluations),
    Comparison("view", "a bare sqlite3 lookup", "a get", 10, views),
    Comparison("api-get", "a bare Starlette handler", "a get by id", 4, partial(api, "get")),
    Comparison("api-create", "a bare Starlette handler", "a create", 4, partial(api, "create")),
    Comparison("imports", "numpy, pyarrow, pydantic and httpx", "import steelyard.client", 10, imports),
)


def measure(comparison: Comparison, times: Times) -> None:
    """Add runs of both sides in turns. A run of the peer that does not end is left out, one of ours is an error."""
    with scratch() as folder, ExitStack() as stack:
        ours, peers = comparison.sides(folder, stack)
        for _ in range(comparison.rounds):
            times.ours.append(ours())
            try:
                times.peers.append(peers())
            except TimeoutError:
                print(f"{comparison.name}: a run of {comparison.peer} has not ended", file=sys.stderr)


def judge(comparison: Comparison, recorded: float, times: Times, again: Callable[[], None]) -> bool:
    """Return whether the ratio has held; where it seems not to, `again` adds runs, and all of them count."""
    if times.ratio < ALLOWED * recorded:
        print(f"{comparison.name}: {times.ratio:.2f}, recorded {recorded:.2f}; once more", file=sys.stderr)
        again()
    return times.ratio >= ALLOWED * recorded


def show(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} µs"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks --short", description=__doc__)
    names = [comparison.name for comparison in COMPARISONS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"by default all: {', '.join(names)}")
    parser.add_argument(
        "--record", action="store_true", help="record the ratios instead of comparing with them"
    )
    given = parser.parse_args(arguments)
    if unknown := sorted({*given.names} - {*names}):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(names)}")
    recorded: dict[str, float] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    began, fallen, unmeasured = time.monotonic(), list[str](), list[str]()
    print("| of what | ours | peer | | ratio | recorded |\n|---|---|---|---|---|---|")
    for comparison in COMPARISONS:
        if given.names and comparison.name not in given.names:
            continue
        times = Times()
        again = partial(measure, comparison, times)
        again()
        if not times.peers:
            print(
                f"| {comparison.unit} | not measured: {comparison.peer} has not ended | | | | |", flush=True
            )
            unmeasured.append(comparison.name)
            continue
        if given.record:
            recorded[comparison.name] = round(times.ratio, 3)
        if not judge(comparison, recorded.get(comparison.name, 0.0), times, again):
            fallen.append(comparison.name)
        cells = (comparison.unit, show(min(times.ours)), show(min(times.peers)), comparison.peer)
        kept = recorded.get(comparison.name, 0.0)
        print(f"| {' | '.join(cells)} | {times.ratio:.2f} | {kept:.2f} |", flush=True)
    print(f"\n{time.monotonic() - began:.0f} s, load average {os.getloadavg()[0]:.1f}")
    if given.record:
        RECORD.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    if fallen:
        print(f"fallen by more than a quarter: {', '.join(fallen)}", file=sys.stderr)
    if unmeasured:
        print(f"not measured, as no run of the peer ended: {', '.join(unmeasured)}", file=sys.stderr)
    return 1 if fallen or unmeasured else 0
