"""One measured command: started beside a server, waited for, and looked at from outside.

Nothing heavy is imported here: the peak of a command counts the memory of the process that started it, too.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard_common.types import JsonValue

ROOT = Path(__file__).parent.parent.parent


def cores() -> tuple[list[str], list[str]]:
    """Command prefixes that pin the server and the client to cores of their own."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        return [], []
    return ["taskset", "-c", str(available[0])], ["taskset", "-c", str(available[1])]


@dataclass(frozen=True)
class Load:
    """Load of a measurement: the requests, and the server."""

    rows: int
    in_flight: int = 64
    """Requests in flight at all replicas together."""
    latency_ms: float = 50.0
    replicas: int = 1
    admits: int | None = None
    """Calls at once that each replica admits; more get 429."""

    @property
    def served(self) -> int:
        """Calls that can be in flight at once."""
        return min(self.in_flight, self.replicas * (self.admits or self.in_flight))

    @property
    def ideal_seconds(self) -> float:
        """Every slot busy from the first moment to the last."""
        return self.rows / self.served * self.latency_ms / 1000


@dataclass
class Serving:
    """A server that runs; `facts` are there once it has ended."""

    urls: list[str]
    facts: dict[str, JsonValue] = field(default_factory=dict)

    @property
    def replicas(self) -> list[dict[str, JsonValue]]:
        return [replica for replica in self.facts["replicas"] if replica["asked"]]


@contextlib.contextmanager
def serve(load: Load) -> Iterator[Serving]:
    """Replicas at `http://127.0.0.1:PORT`."""
    command = [*cores()[0], sys.executable, "-m", "benchmarks.evaluation.server"]
    command += ["--latency-ms", str(load.latency_ms), "--replicas", str(load.replicas)]
    command += ["--slots", str(load.served // load.replicas)]
    command += [] if load.admits is None else ["--admits", str(load.admits)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        serving = Serving([f"http://127.0.0.1:{port}" for port in process.stdout.readline().split()])
        try:
            yield serving
        finally:
            process.stdin.close()
            serving.facts = json.loads(process.stdout.readline())


@dataclass(frozen=True)
class Result:
    """Result of a command, as its server and the kernel saw it."""

    load: Load
    exit: int
    wall: float
    """Seconds from its start to its end."""
    cpu: float
    peak_mb: float
    """The most memory of any one of its processes."""
    server: Mapping[str, JsonValue]
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    """Facts that the command prints about itself, as JSON on its last line."""

    @property
    def _replicas(self) -> list[dict[str, JsonValue]]:
        return [replica for replica in self.server["replicas"] if replica["asked"]]

    @property
    def asked(self) -> int:
        return sum(int(replica["asked"]) for replica in self._replicas)

    @property
    def answered(self) -> int:
        return sum(int(replica["answered"]) for replica in self._replicas)

    @property
    def refused_share(self) -> float:
        return float(sum(replica["refused"] for replica in self._replicas) / max(1, self.asked))

    @property
    def calls_seconds(self) -> float:
        """Seconds from the first request to the last answer."""
        replicas = self._replicas
        return float(
            max(replica["ended"] for replica in replicas) - min(replica["first"] for replica in replicas)
        )

    @property
    def of_ideal(self) -> float:
        """The rate of answers, as the server saw it, beside that of slots that are always busy."""
        load = self.load
        return self.answered / self.calls_seconds / (1000 * load.served / load.latency_ms)

    @property
    def busy(self) -> float:
        """The share of slots in use between the first request and the last one."""
        replicas = self._replicas
        seconds = max(replica["last"] for replica in replicas) - min(replica["first"] for replica in replicas)
        return float(sum(replica["busy_at_last"] for replica in replicas) / seconds / self.load.served)

    @property
    def first_call(self) -> float:
        """Seconds from the command's start to its first request."""
        first = min(replica["first"] for replica in self._replicas)
        return float(first - self.facts["began"])

    @property
    def loop_cpu_us_per_row(self) -> float:
        """Processor time per row of the work alone, where the command reports it."""
        return 1e6 * float(self.facts.get("loop_cpu", self.cpu)) / max(1, self.answered)

    @property
    def cpu_us_per_row(self) -> float:
        return 1e6 * self.cpu / max(1, self.answered)


@dataclass(frozen=True)
class Command:
    """Command to start. URLs are filled in: all for the argument `{urls}`, one for `{url}`, `{url1}`, …"""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path = ROOT

    def at(self, urls: Sequence[str]) -> list[str]:
        made: list[str] = []
        for argument in self.arguments:
            filled = argument
            for number, url in enumerate(urls):
                filled = filled.replace(f"{{url{number or ''}}}", url)
            made += urls if argument == "{urls}" else [filled]
        return made


def run(command: Command, load: Load) -> Result:
    """Run it beside a fresh server. What it writes is kept for its last line alone."""
    with serve(load) as serving:
        measured, counts = watch(command, serving.urls)
    return Result(load, server=serving.facts, facts=counts, **measured)


def watch(command: Command, urls: Sequence[str] = ()) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Run a command; return what the kernel measured, and what the command printed about itself."""
    arguments = [*cores()[1], *command.at(urls)]
    log = command.folder / "command.log" if command.folder != ROOT else Path(os.devnull)
    began = time.monotonic()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            arguments,
            cwd=command.folder,
            env=os.environ | dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.stdout.close()
        process.returncode = os.waitstatus_to_exitcode(status)
    measured = {
        "exit": process.returncode,
        "wall": wall,
        "cpu": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }
    return measured, {"began": began} | _last_json(lines)


def _last_json(lines: Sequence[bytes]) -> dict[str, JsonValue]:
    try:
        measurement = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {}
    return measurement if isinstance(measurement, dict) else {}
