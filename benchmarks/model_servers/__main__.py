"""`python -m benchmarks.model_servers [--rows N] [--rounds N] [--only PART …]`: Markdown, then one JSON line.

On the real vLLM for processors and the tiny model of `make test-engines`, which are prepared where they are not there:

* `engine`: our engine beside a bare aiohttp loop, at fixed numbers of calls in flight, and ours at `auto`;
* `ready`: the time until a served folder answers, beside the same command started by hand;
* `session`: the same bare loop through a session's endpoint of the platform, and at its replica;
* `endpoint`: the same at a double that waits as long as that server, and takes hardly any processor time;
* `curves`: `auto` beside fixed numbers in simulations of real servers' rates by calls in flight, without any server.

Variants take turns, so that what else the machine does falls on all of them; of each the best round counts. The share
of a session's endpoint is also given as the median over rounds of its rate beside the replica's of the same round.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.evaluation.prompts import write
from benchmarks.model_servers import endpoint
from steelyard_evaluation.engine.limit import AUTO as LIMIT_AUTO
from steelyard_evaluation.engine.limit import Concurrency, Limit
from steelyard_evaluation.engine.test_limit import H100, TWO_CORES, seconds_of
from tests.engines.model_servers import checks, prepared
from tests.engines.model_servers.serving import serving

ROOT = Path(__file__).parent.parent.parent
CALLS = (64, 256, 1024)
SESSION_CALLS = (64, 256)
CURVE_ROWS = (1_000, 6_000, 20_000)
SPREAD = 0.5
"""Standard deviation of the lengths of simulated answers, as a share of their mean."""
TOKENS = 16
ARGUMENTS = ("--enforce-eager", "--max-num-seqs", "256")
AUTO = "auto"
STEELYARD = [sys.executable, "-m", "steelyard.cli.main"]


def rate(loop: endpoint.Loop, folder: Path, rows: int) -> float:
    """Answered rows a second of one loop."""
    what, calls, url, environment = loop
    command = [
        sys.executable,
        "-m",
        "benchmarks.model_servers.client",
        what,
        str(folder),
        calls,
        url,
        str(TOKENS),
    ]
    output = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    for path in folder.glob("output-*"):
        shutil.rmtree(path)
    return rows / float(json.loads(output)["seconds"])


def best_rates(loops: Mapping[str, endpoint.Loop], folder: Path, rows: int, rounds: int) -> dict[str, float]:
    """Rows a second of each loop in its best round; the first round warms the server up, and does not count."""
    return {name: max(rates) for name, rates in rates_of(loops, folder, rows, rounds).items()}


def rates_of(
    loops: Mapping[str, endpoint.Loop], folder: Path, rows: int, rounds: int
) -> dict[str, list[float]]:
    """Rows a second of each loop, by round; what comes before the first round warms the server up."""
    rates: dict[str, list[float]] = {name: [] for name in loops}
    rate(next(iter(loops.values())), folder, rows)
    for number in range(rounds):
        for name, loop in loops.items():
            measured = rate(loop, folder, rows)
            rates[name].append(measured)
            print(f"round {number + 1}: {name}: {measured:.1f} rows/s", file=sys.stderr, flush=True)
    return rates


def measure_engine(model: Path, folder: Path, rows: int, rounds: int) -> dict[str, float]:
    with serving(model, *ARGUMENTS) as server:
        url = f"http://{server.plan.serving.host}:{server.plan.serving.port}/v1"
        loops: dict[str, endpoint.Loop] = {}
        for calls in CALLS:
            loops[f"bare loop, {calls}"] = ("bare", str(calls), url, {})
            loops[f"engine, {calls}"] = ("engine", str(calls), url, {})
        loops[f"engine, {AUTO}"] = ("engine", AUTO, url, {})
        return best_rates(loops, folder, rows, rounds)


def measure_ready(model: Path, rounds: int) -> dict[str, float]:
    """Seconds until the server answers, best of several rounds that take turns."""
    served, by_hand = [], []
    for _ in range(rounds):
        with serving(model, *ARGUMENTS) as server:
            served.append(server.seconds)
            plan = server.plan
        began = time.monotonic()
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                plan.command,
                env=plan.variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                while not _answers(f"http://{plan.serving.host}:{plan.serving.port}{plan.kind.ready_path}"):
                    assert process.poll() is None, "the server that was started by hand has ended"
                    time.sleep(0.05)
                by_hand.append(time.monotonic() - began)
            finally:
                os.killpg(process.pid, 15)
                process.wait()
        print(f"ready after {served[-1]:.1f} s, by hand {by_hand[-1]:.1f} s", file=sys.stderr, flush=True)
    return {"served": min(served), "by hand": min(by_hand)}


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except OSError:
        return False
    return True


def measure_session(model: Path, folder: Path, scratch: Path, rows: int, rounds: int) -> dict[str, float]:
    state = scratch / "state-session"
    where = ["--state-dir", str(state)]
    try:
        options = [f"--server-arg={argument}" for argument in ARGUMENTS]
        status, text = checks.run(
            [*STEELYARD, "serve", str(model), "--detach", "--name", "tiny", *where, *options]
        )
        assert status == 0, text
        url, token = (re.search(rf"{word}: +(\S+)", text) for word in ("URL", "token"))
        assert url, text
        assert token, text
        replica = asyncio.run(endpoint.replica_url(state))
        key = {"OPENAI_API_KEY": token[1]}
        loops: dict[str, endpoint.Loop] = {}
        for calls in SESSION_CALLS:
            loops[f"replica, {calls}"] = ("bare", str(calls), replica, {})
            loops[f"session, {calls}"] = ("bare", str(calls), url[1], key)
        rates = rates_of(loops, folder, rows, rounds)
        figures = {name: max(measured) for name, measured in rates.items()}
        for calls in SESSION_CALLS:
            pairs = zip(rates[f"session, {calls}"], rates[f"replica, {calls}"], strict=True)
            figures[f"median share, {calls}"] = statistics.median(ours / theirs for ours, theirs in pairs)
        return figures
    finally:
        checks.run([*STEELYARD, "down", *where])


def measure_curves() -> dict[str, float]:
    """Rate of `auto` as a share of the best fixed number's, on curves of real servers."""
    shares = {}
    for name, curve in {"H100": H100, "two cores": TWO_CORES}.items():
        for rows in CURVE_ROWS:
            best = min(seconds_of(Limit(Concurrency(calls)), curve, rows, SPREAD) for calls in CALLS)
            shares[f"{name}, {rows:,} rows"] = best / seconds_of(Limit(LIMIT_AUTO), curve, rows, SPREAD)
    return shares


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def shown(parts: Mapping[str, Mapping[str, float]]) -> str:
    """Markdown tables of the measurements."""
    texts = []
    if engine := parts.get("engine"):
        best = max(rate for name, rate in engine.items() if name.startswith("engine") and AUTO not in name)
        rows = [
            [str(calls), f"{engine[f'bare loop, {calls}']:.1f}", f"{engine[f'engine, {calls}']:.1f}",
             f"{engine[f'engine, {calls}'] / engine[f'bare loop, {calls}']:.1%}"]
            for calls in CALLS
        ]  # fmt: skip
        auto = engine[f"engine, {AUTO}"]
        rows.append([AUTO, "", f"{auto:.1f}", f"{auto / best:.1%} of the best fixed one"])
        texts.append(table(["calls in flight", "bare loop, rows/s", "engine, rows/s", "share"], rows))
    if ready := parts.get("ready"):
        rows = [[name, f"{seconds:.1f} s"] for name, seconds in ready.items()]
        texts.append(table(["time until it answers", ""], rows))
    if session := parts.get("session"):
        rows = [
            [str(calls), f"{session[f'replica, {calls}']:.1f}", f"{session[f'session, {calls}']:.1f}",
             f"{session[f'session, {calls}'] / session[f'replica, {calls}']:.1%}",
             f"{session[f'median share, {calls}']:.1%}"]
            for calls in SESSION_CALLS
        ]  # fmt: skip
        texts.append(
            table(
                ["calls in flight", "replica, rows/s", "session's endpoint, rows/s", "share", "median share"],
                rows,
            )
        )
    if double := parts.get("endpoint"):
        rows = [
            [str(calls), f"{double[f'replica, {calls}']:.1f}", f"{double[f'session, {calls}']:.1f}",
             f"{double[f'session, {calls}'] / double[f'replica, {calls}']:.1%}",
             f"{double[f'median share, {calls}']:.1%}", f"{double[f'processor, {calls}']:.0f} µs"]
            for calls in SESSION_CALLS
        ]  # fmt: skip
        head = ["calls in flight", "double, rows/s", "session's endpoint, rows/s", "share", "median share"]
        texts.append(table([*head, "processor time of a request"], rows))
    if curves := parts.get("curves"):
        texts.append(
            table(["simulated server", "of the best fixed one"], [[k, f"{v:.1%}"] for k, v in curves.items()])
        )
    return "\n\n".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_servers")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=("engine", "ready", "session", "endpoint", "curves"))
    arguments = parser.parse_args()
    rows, rounds = arguments.rows, arguments.rounds
    with checks.scratch_folder() as name, prepared.surroundings(Path(name)):
        scratch = Path(name)
        model = Path()
        if not arguments.only or {"engine", "ready", "session"} & set(arguments.only):
            prepared.runner("vllm")
            model = prepared.models() / "bos"
        write(scratch / "prompts", rows)
        parts: dict[str, Callable[[], dict[str, float]]] = {
            "engine": lambda: measure_engine(model, scratch / "prompts", rows, rounds),
            "ready": lambda: measure_ready(model, rounds),
            "session": lambda: measure_session(model, scratch / "prompts", scratch, rows, rounds),
            "endpoint": lambda: endpoint.measure(
                scratch / "prompts", scratch, rows, rounds, SESSION_CALLS, rate
            ),
            "curves": measure_curves,
        }
        figures = {part: parts[part]() for part in arguments.only or parts}
    print(shown(figures))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
