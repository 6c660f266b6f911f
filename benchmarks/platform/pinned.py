"""Servers on one core, the load on the other: the processes of the API's measurement."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.platform.load import Latencies, Load
from steelyard.local.state import StateDir, read_platform

START_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A process that answers."""

    port: int
    pid: int


def on_core(number: int) -> list[str]:
    """Prefix of a command that keeps it to one core; nothing where there is only one."""
    available = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(available[number])] if len(available) > 1 else []


def measured(load: Load, folder: Path) -> Latencies:
    """One run of the load. Says so when not all was answered by 200."""
    request = folder / "load.json"
    request.write_text(json.dumps(asdict(load)))
    command = [*on_core(1), sys.executable, "-m", "benchmarks.platform.load", str(request)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured = Latencies(**json.loads(done.stdout))
    if set(measured.statuses) != {"200"}:
        print(f"{load.requests[0].split(' HTTP')[0]}: answered {measured.statuses}", file=sys.stderr)
    return measured


@contextlib.contextmanager
def bare_server(body: bytes, folder: Path) -> Iterator[Server]:
    """A bare handler that answers `body`."""
    answer = folder / "answer"
    answer.write_bytes(body)
    command = [*on_core(0), sys.executable, "-m", "benchmarks.platform.bare", str(answer)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Server(int(process.stdout.readline()), process.pid)
        finally:
            process.stdin.close()


@contextlib.contextmanager
def service(
    name: str, state: StateDir, *, core: int, without: Sequence[str] = (), settings: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """One part of the platform alone, on one core; without `settings`, on files."""
    command = [*on_core(core), sys.executable, "-m", "steelyard.cli.service", name]
    command += ["--state-dir", str(state.path)]
    command += [word for name in without for word in ("--without", name)]
    command += ["--settings", str(settings)] if settings else []
    state.logs.mkdir(parents=True, exist_ok=True)
    with (
        state.log(f"bench-{name}").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as it,
    ):
        try:
            yield it
        finally:
            it.terminate()


@contextlib.contextmanager
def api_server(state: StateDir, settings: Path | None = None) -> Iterator[tuple[Server, str]]:
    """The API alone, and an administrator's token."""
    state.platform.unlink(missing_ok=True)
    with service("api", state, core=0, settings=settings) as process:
        until = time.monotonic() + START_SECONDS
        while (state_read := read_platform(state))[0] is None:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the API does not start:\n{state.log('bench-api').read_text()[-2000:]}")
            time.sleep(0.02)
        address, token = state_read
        assert address is not None
        assert token is not None
        yield Server(int(address.removesuffix("/v0").rpartition(":")[2]), process.pid), token
