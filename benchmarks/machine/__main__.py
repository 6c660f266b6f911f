"""Measures `steelyard up`, the example, `steelyard down`, and memory idle and busy: `python -m benchmarks.machine`.

Memory is the proportional set size of the processes, so that shared pages count once. The limit beside it is a bare
Python interpreter with the same libraries loaded, in the same run.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from steelyard.local.detached import start_detached, stop
from steelyard.local.state import StateDir, read_record

ROOT = Path(__file__).parent.parent.parent
BARE = "import aiohttp, orjson, pydantic, yaml, time; time.sleep(5)"


def memory(pids: Iterable[int]) -> float:
    """Proportional set size in MB."""
    total = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def processor(pids: Iterable[int]) -> float:
    """Processor seconds used so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / 100


def parts(state: StateDir) -> list[int]:
    record = read_record(state)
    return [record.pid, *(pid for pid, _ in record.children.values())]


def bare_interpreter() -> float:
    process = subprocess.Popen([sys.executable, "-c", BARE])
    time.sleep(2)
    try:
        return memory([process.pid])
    finally:
        process.kill()
        process.wait()


def run_example(state: Path) -> tuple[float, float]:
    """Seconds that the example takes, and the largest memory of our own processes meanwhile."""
    began, busy = time.monotonic(), 0.0
    command = [
        sys.executable,
        "-m",
        "steelyard.cli.main",
        "run",
        "examples/digits",
        "--state-dir",
        str(state),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        busy = max(busy, memory(parts(StateDir(state))))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"the example exited {process.returncode}")
    return time.monotonic() - began, busy


def measure(state: Path) -> dict[str, float]:
    began = time.monotonic()
    start_detached(state)
    figures = {"start, s": time.monotonic() - began}
    pids = parts(StateDir(state))
    time.sleep(5)
    before = processor(pids)
    time.sleep(20)
    figures["processor while idle, %"] = (processor(pids) - before) / 20 * 100
    figures["memory idle, MB"] = memory(pids)
    figures["example, s"], figures["memory busy, MB"] = run_example(state)
    figures["memory after the example, MB"] = memory(pids)
    began = time.monotonic()
    stop(state)
    figures["stop, s"] = time.monotonic() - began
    figures["a bare interpreter with the same libraries, MB"] = bare_interpreter()
    return figures


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as folder:
        state = Path(folder)
        try:
            figures = measure(state)
        finally:
            stop(state)
    print("| what | figure |\n|---|---|")
    for name, value in figures.items():
        print(f"| {name} | {value:.1f} |")
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
